//! Conditions: an expr, a flag that only `post` changes, or a question to a model (language.md 5).

use super::*;

impl AgentCx<'_> {
    pub(super) fn lower_conditions(&mut self, defaults: &Layers<'_>) {
        let heads = self.heads;
        let mut infos: Vec<(Vec<TypeId>, IndexSet<String>)> = Vec::new();
        for decl in heads.visible.conditions.values() {
            let (kind, types, named) = self.lower_condition(decl.decl, defaults);
            infos.push((types, named));
            self.conditions.push(Condition {
                name: decl.name.value.clone(),
                kind,
                mentions: Vec::new(),
                names: Vec::new(),
            });
        }
        check::conditions::cycles(self, &infos);
        // A condition mentions what the conditions that it names mention.
        for at in 0..infos.len() {
            let mut reached = vec![at];
            let mut next = 0;
            while let Some(current) = reached.get(next).copied() {
                next += 1;
                for name in &infos[current].1 {
                    let other = self.conditions.iter().position(|condition| condition.name == *name);
                    reached.extend(other.filter(|other| !reached.contains(other)));
                }
            }
            let mut mentions: Vec<TypeId> = Vec::new();
            for id in reached.iter().flat_map(|at| infos[*at].0.iter()) {
                if !mentions.contains(id) {
                    mentions.push(*id);
                }
            }
            self.conditions[at].mentions = mentions;
            reached.remove(0);
            self.conditions[at].names = reached;
        }
    }

    fn lower_condition(
        &mut self,
        decl: &ConditionDecl,
        defaults: &Layers<'_>,
    ) -> (ConditionKind, Vec<TypeId>, IndexSet<String>) {
        let none = (ConditionKind::Flag(false), Vec::new(), IndexSet::new());
        let record = match decl {
            ConditionDecl::Expr(expr) => {
                if let Ok(value) = expr.0.value.trim().parse::<bool>() {
                    return (ConditionKind::Flag(value), Vec::new(), IndexSet::new());
                }
                let scope = self.planning_scope(&self.base_scope());
                let Some((checked, id)) = self.condition_expr(expr, &scope) else { return none };
                let types = self.mentioned(&checked, &[]);
                return (ConditionKind::Expr(Vec::new(), id), types, checked.conditions);
            }
            ConditionDecl::Record(record) => record,
        };
        let (inputs, unknown) = match &record.inputs {
            Some(inputs) => Resolve { types: &self.heads.types, findings: &mut self.strings.findings }.inputs(inputs),
            None => (Vec::new(), Vec::new()),
        };
        let scope = self.input_scope(&inputs, &unknown);
        if let Some(expr) = &record.expr {
            let scope = self.planning_scope(&scope);
            let Some((checked, id)) = self.condition_expr(expr, &scope) else { return none };
            let mut types = self.mentioned(&checked, &inputs);
            types.extend(inputs.iter().map(|input| input.type_id));
            return (ConditionKind::Expr(inputs, id), types, checked.conditions);
        }
        let Some(prompt) = &record.prompt else { return none };
        let mut settings = self.settings(defaults, &scope);
        settings.references = self.references_of(defaults);
        if let Some(llm) = &record.llm {
            settings.models = self.models(llm);
        }
        self.long_references(&settings);
        if let Some(confidence) = record.confidence.filter(|confidence| *confidence > 1.0) {
            let message = format!("`confidence` is from 0 to 1, found {confidence}");
            self.report(Diagnostic::error("out-of-range", record.place.0, message));
        }
        let Some(template) = self.strings.template(&prompt.0, &scope, ("", "")) else { return none };
        let types = inputs.iter().map(|input| input.type_id).collect();
        let confidence = record.confidence.unwrap_or(0.0);
        (ConditionKind::Prompt(inputs, template, Arc::new(settings), confidence), types, IndexSet::new())
    }

    fn condition_expr(&mut self, expr: &Expr, scope: &Scope) -> Option<(Checked, crate::prompt::ExprId)> {
        let checked = self.strings.checked_expr(expr, scope)?;
        let id = self.strings.compiled(&expr.0.value)?;
        Some((checked, id))
    }

    /// The types that a checked expr mentions in any way.
    pub(super) fn mentioned(&self, checked: &Checked, inputs: &[Input]) -> Vec<TypeId> {
        let mut types: Vec<TypeId> = checked.types.iter().filter_map(|name| self.types().id(name)).collect();
        let names = checked.mentions.iter().chain(&checked.guarded);
        for name in names {
            let input = inputs.iter().find(|input| input.name == *name).map(|input| input.type_id);
            types.extend(input.or_else(|| self.type_names.get(name).copied()));
        }
        types.sort_unstable();
        types.dedup();
        types
    }
}
