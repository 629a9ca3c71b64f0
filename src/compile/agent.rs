//! One agent: its heads and everything around them become a [`program::Agent`](crate::program::Agent).

mod conditions;

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value};

use crate::action;
use crate::action::context::{CallSettings, ModelChoice};
use crate::action::lower::AgentRef;
use crate::decl::body::BodyNode;
use crate::decl::read::listed;
use crate::decl::workflow::{Achieves, Condition as ConditionDecl, Export, OnError as OnErrorDecl, OnErrorWord};
use crate::decl::{Expr, Name, ReadCx};
use crate::diag::{Diagnostic, suggest};
use crate::llm::{Catalog, ProviderConfig};
use crate::program::{
    Agent, Condition, ConditionKind, Goal, Input, Limits, MissingEnv, Number, OnError, PlannerKind, Retry, Written,
};
use crate::prompt::{Checked, Data, Files, Scope, Templates, TemplatesBuilder, Ty, resolved_form, split_not};
use crate::source::{FileId, Span};
use crate::tool::Tool;
use crate::value::{NoRules, Output, OutputKind, Tags, TypeId, TypeKind, Types, Validators};

use super::check;
use super::choosing::Recipe;
use super::cx::BodyCx;
use super::heads::{ActionHead, Heads, Resolve};
use super::load::Loaded;
use super::lower::{ExprFact, Requirement, Sketch, Test, lower};
use super::settings::Layers;
use super::slice::{Slices, Uses};
use super::states;
use super::strings::{Strings, config_ty, truth_scope};
use super::tools::{ToolTypes, Tooling};

/// What all agents of a compilation share.
pub(crate) struct Shared<'a> {
    pub(crate) loaded: &'a Loaded<'a>,
    pub(crate) files: &'a Files,
    pub(crate) file_ids: &'a IndexMap<String, FileId>,
    pub(crate) agents: &'a IndexMap<String, AgentRef>,
    /// Names of all agents of the project, also of those that were not read.
    pub(crate) agent_names: &'a [String],
    pub(crate) providers: &'a IndexMap<String, ProviderConfig>,
    pub(crate) catalog: &'a Catalog,
    /// Why an MCP server cannot be used here.
    pub(crate) unusable: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// Where files could not be read as declarations.
    pub(crate) read_errors: &'a [Span],
    pub(crate) slices: &'a Slices,
}

/// What the compilation of one agent gave.
pub(crate) struct AgentOutcome {
    /// The agent; `None` when its own declarations have errors, or when the module declares none.
    pub(crate) agent: Option<Agent>,
    pub(crate) findings: Vec<Diagnostic>,
    pub(crate) read: Vec<PathBuf>,
    pub(crate) used_templates: IndexSet<String>,
    pub(crate) missing_env: Vec<MissingEnv>,
    pub(crate) counts: Counts,
    /// What it used of what is declared for all.
    pub(crate) uses: Uses,
    /// What its lists of models were made from.
    pub(crate) recipes: Vec<Recipe>,
    /// Whether it hangs on which templates there are, beyond those that it draws in.
    pub(crate) looks_around: bool,
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) actions: usize,
    pub(crate) types: usize,
    pub(crate) goals: usize,
    pub(crate) conditions: usize,
    pub(crate) tools: usize,
    pub(crate) strings: usize,
}

/// One agent while it is compiled.
pub(crate) struct AgentCx<'a> {
    pub(crate) loaded: &'a Loaded<'a>,
    pub(crate) heads: &'a Heads<'a>,
    pub(crate) agents: &'a IndexMap<String, AgentRef>,
    pub(crate) agent_names: &'a [String],
    pub(crate) providers: &'a IndexMap<String, ProviderConfig>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) unusable: &'a (dyn Fn(&str) -> Option<String> + Sync),
    pub(crate) strings: Strings<'a>,
    pub(crate) type_names: Arc<IndexMap<String, TypeId>>,
    action_names: Arc<IndexSet<String>>,
    condition_names: IndexSet<String>,
    config: Map<String, Value>,
    config_ty: Ty,
    pub(crate) conditions: Vec<Condition>,
    exprs: Vec<ExprFact>,
    pub(crate) tools: IndexMap<String, Arc<Tool>>,
    pub(crate) tooling: Tooling,
    pub(crate) guardrails: Vec<crate::program::Guardrail>,
    /// The lists of models so far, and what each was made from.
    pub(crate) models: Vec<Vec<ModelChoice>>,
    pub(crate) recipes: Vec<Recipe>,
    /// What it has used of what is declared for all.
    pub(crate) uses: Uses,
    slices: &'a Slices,
    pub(crate) referencing: super::references::Referencing,
    unsupported: Vec<String>,
    missing_env: Vec<MissingEnv>,
    read_errors: &'a [Span],
    pub(crate) read: Vec<PathBuf>,
    pub(crate) validators: Validators,
}

/// Compiles one agent, or checks a module that declares none.
pub(crate) fn compile(shared: &Shared<'_>, heads: &Heads<'_>) -> AgentOutcome {
    let mut cx = AgentCx::new(shared, heads);
    cx.resolve_default_models();
    check::module_checks(&mut cx);
    let defaults = cx.default_layers();
    cx.lower_guardrails(&defaults);
    cx.lower_conditions(&defaults);
    cx.lower_tools(&defaults);
    let parts = cx.lower_actions(&defaults);
    let goals = cx.lower_goals(&parts.goals);
    check::whole_checks(&mut cx);
    let counts = Counts {
        actions: heads.actions.len(),
        types: heads.visible.types.len() + heads.visible.states.len(),
        goals: goals.goals.len(),
        conditions: heads.visible.conditions.len(),
        tools: heads.visible.tools.len(),
        strings: cx.strings.count,
    };
    cx.finish(parts, goals, counts)
}

/// Actions as far as they could be lowered, with what the domain needs of them.
#[derive(Default)]
pub(crate) struct Actions {
    actions: Vec<crate::program::Action>,
    pre: Vec<Vec<Requirement>>,
    tool_types: Vec<ToolTypes>,
    /// Index of the action, its name and what it achieves.
    goals: Vec<(usize, AchievedGoal)>,
}

/// A goal of `achieves` before it is resolved.
pub(crate) struct AchievedGoal {
    name: Name,
    output: Output,
    value: Number,
    description: Option<String>,
    export: bool,
}

#[derive(Default)]
struct Goals {
    goals: Vec<Goal>,
    when: Vec<Vec<Requirement>>,
}

impl<'a> AgentCx<'a> {
    fn new(shared: &Shared<'a>, heads: &'a Heads<'a>) -> AgentCx<'a> {
        let types = Arc::clone(&heads.types);
        let builder = Some(TemplatesBuilder::new(Arc::clone(&types)));
        let config: Map<String, Value> =
            heads.visible.config.values().map(|decl| (decl.name.value.clone(), decl.decl.value())).collect();
        let members = config.iter().map(|(key, value)| (key.clone(), config_ty(value)));
        AgentCx {
            loaded: shared.loaded,
            heads,
            agents: shared.agents,
            agent_names: shared.agent_names,
            providers: shared.providers,
            catalog: shared.catalog,
            unusable: shared.unusable,
            type_names: Scope::type_names(&types),
            action_names: Arc::new(heads.actions.iter().map(|action| action.full_name.clone()).collect()),
            condition_names: heads.visible.conditions.keys().map(|name| (*name).to_owned()).collect(),
            config_ty: Ty::Record(Arc::new(members.collect())),
            config,
            conditions: Vec::new(),
            exprs: Vec::new(),
            tools: IndexMap::new(),
            tooling: Tooling::default(),
            guardrails: Vec::new(),
            models: Vec::new(),
            recipes: Vec::new(),
            uses: Uses::default(),
            slices: shared.slices,
            referencing: super::references::Referencing::default(),
            unsupported: Vec::new(),
            missing_env: Vec::new(),
            read_errors: shared.read_errors,
            read: Vec::new(),
            validators: Validators::new(Arc::clone(&types)),
            strings: Strings {
                types,
                files: shared.files,
                file_ids: shared.file_ids,
                builder,
                findings: heads.findings.clone(),
                used: IndexSet::new(),
                looks_around: false,
                count: 0,
            },
        }
    }

    /// The types of the agent.
    pub(crate) fn types(&self) -> &'a Types {
        &self.heads.types
    }

    /// Reports a finding.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.strings.findings.push(diagnostic);
    }

    /// Reports a name that is not declared, with the nearest that are.
    pub(crate) fn report_unknown(&mut self, code: &'static str, what: &str, name: &Name, candidates: &[&str]) {
        if !self.heads.visible.broken.contains(name.value.as_str()) {
            self.report(unknown_name(code, what, name, candidates));
        }
    }

    /// Whether something was reported just here when the file was read.
    pub(crate) fn is_read_error(&self, span: Span) -> bool {
        self.read_errors.contains(&span)
    }

    /// Whether some file that the agent sees could not be read as a whole.
    fn has_read_errors(&self) -> bool {
        let paths = self.heads.visible.modules.iter().map(|id| self.loaded.modules[id.0].path.as_str());
        let paths: Vec<&str> = paths.collect();
        self.read_errors.iter().any(|span| paths.contains(&self.loaded.sources.get(span.file).path()))
    }

    /// Notes what this version checks but cannot run.
    pub(crate) fn unsupported(&mut self, span: Span, what: &str) {
        let source = self.loaded.sources.get(span.file);
        let (line, column) = source.line_column(span.start);
        let note = format!("not supported yet: {what} ({}:{line}:{column})", source.path());
        if !self.unsupported.contains(&note) {
            self.unsupported.push(note);
        }
    }

    /// Notes an environment variable that is not set: `check` warns, and what needs it does not run.
    pub(crate) fn missing_env(&mut self, variable: &str, span: Span) {
        let source = self.loaded.sources.get(span.file);
        let (line, column) = source.line_column(span.start);
        self.missing_env.push(MissingEnv {
            section: "agent".to_owned(),
            name: self.heads.own.agent.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
            variable: variable.to_owned(),
            place: format!("{}:{line}:{column}", source.path()),
        });
        self.report(super::providers::missing_env(variable, span));
    }

    pub(crate) fn default_layers(&self) -> Layers<'a> {
        let modules = self.heads.visible.modules.iter();
        let layers = modules.filter(|id| **id == self.heads.module || Some(**id) == self.loaded.project);
        let layers = layers.filter_map(|id| self.loaded.modules[id.0].decl.defaults.as_ref());
        Layers { layers: layers.collect() }
    }

    /// What strings see everywhere in an agent.
    pub(crate) fn base_scope(&self) -> Scope {
        let process = [("id", Ty::Str), ("agent", Ty::Str)].map(|(name, ty)| (name.to_owned(), ty));
        Scope {
            actions: Some(Arc::clone(&self.action_names)),
            functions: true,
            ..Scope::new().with("config", self.config_ty.clone()).with("process", Ty::Record(Arc::new(process.into())))
        }
    }

    /// What the strings of something with inputs see; inputs of unknown type are anything.
    pub(crate) fn input_scope(&self, inputs: &[Input], unknown: &[String]) -> Scope {
        let mut scope = self.base_scope();
        let known = inputs.iter().map(|input| (input.name.clone(), self.input_ty(input)));
        let known: Vec<(String, Ty)> = known.chain(unknown.iter().map(|name| (name.clone(), Ty::Any))).collect();
        scope.vars.insert("inputs".to_owned(), Ty::Record(Arc::new(known.iter().cloned().collect())));
        scope.vars.extend(known);
        scope
    }

    fn input_ty(&self, input: &Input) -> Ty {
        let one = Ty::named(self.types(), input.type_id);
        let ty = if input.list { Ty::List(Box::new(one)) } else { one };
        if input.optional && !input.list { ty.optional() } else { ty }
    }

    /// The same scope for exprs of a body: conditions by name too.
    pub(crate) fn expr_scope(&self, scope: &Scope) -> Scope {
        Scope { conditions: self.condition_names.clone(), ..scope.clone() }
    }

    /// The same scope for `pre`, `cost`, `value` and conditions: types by their default names too.
    pub(crate) fn planning_scope(&self, scope: &Scope) -> Scope {
        let scope = Scope { type_names: Some(Arc::clone(&self.type_names)), ..self.expr_scope(scope) };
        truth_scope(&scope)
    }

    /// Reads and lowers one body.
    pub(crate) fn lower_body(
        &mut self,
        body: &BodyNode,
        scope: &Scope,
        output: Output,
        output_checked: bool,
        settings: Arc<CallSettings>,
    ) -> Option<Arc<dyn action::Body>> {
        let mut read = ReadCx::default();
        let written = action::read_body(body, &mut read);
        self.strings.findings.append(&mut read.diagnostics);
        let expr_scope = self.expr_scope(scope);
        let mut cx = BodyCx { agent: self, scope: scope.clone(), expr_scope, output, output_checked, settings };
        written?.lower(&mut cx)
    }

    fn lower_actions(&mut self, defaults: &Layers<'a>) -> Actions {
        let heads = self.heads;
        let mut actions = Actions::default();
        for head in &heads.actions {
            let lowered = self.lower_action(head, defaults);
            let Some((action, pre, tool_types, achieved)) = lowered else { continue };
            if let Some(goal) = achieved {
                actions.goals.push((actions.actions.len(), goal));
            }
            actions.actions.push(action);
            actions.pre.push(pre);
            actions.tool_types.push(tool_types);
        }
        actions
    }

    #[allow(clippy::type_complexity, reason = "the parts of one action, taken apart at the only call")]
    fn lower_action(
        &mut self,
        head: &ActionHead<'a>,
        defaults: &Layers<'a>,
    ) -> Option<(crate::program::Action, Vec<Requirement>, ToolTypes, Option<AchievedGoal>)> {
        let decl = head.decl;
        let before = self.strings.findings.len();
        let mut scope = self.input_scope(&head.inputs, &head.unknown_inputs);
        if let Some(state) = head.state {
            states::add_variables(self.types(), state, &mut scope);
        }
        let planning = self.planning_scope(&scope);
        let layers = defaults.under(&decl.settings);
        let mut settings = self.settings(&layers, &scope);
        let asks_model = decl.body.as_ref().is_some_and(check::actions::asks_model);
        if asks_model {
            settings.references = self.references_of(&layers);
            self.long_references(&settings);
        }
        let tool_types = self.action_tools(head, &layers, asks_model, &mut settings);
        self.reference_collisions(&layers, &settings);
        let settings = Arc::new(settings);
        if let Some(text) = &decl.head.description {
            self.strings.check(&text.0, &scope);
        }
        let mut pre: Vec<Option<Requirement>> =
            decl.head.pre.iter().map(|expr| self.requirement(expr, &planning, &head.inputs, head.state)).collect();
        if asks_model {
            pre.extend(self.unserved_groups(&layers).into_iter().map(Some));
        }
        let post: Vec<Option<(usize, bool)>> = decl.head.post.iter().map(|expr| self.post(expr)).collect();
        let cost = self.number(decl.head.cost.as_ref(), &planning, true);
        let value = self.number(decl.head.value.as_ref(), &planning, false);
        let hide: Vec<Option<usize>> = decl.head.hide.iter().map(|name| self.hidden(name, head)).collect();
        let achieved = decl.head.achieves.as_ref().map(|achieves| self.achieved(achieves, head, &planning));
        let body = decl.body.as_ref().and_then(|body| {
            self.lower_body(body, &scope, head.output.clone(), head.output_known, Arc::clone(&settings))
        });
        check::actions::check(self, head);
        self.drop_consequences(before, decl.place.0);
        let on_error = self.on_error(decl.head.on_error.as_ref(), head, &scope);
        let retry = layers.find(|settings| settings.retry.as_ref());
        let lowered = crate::program::Action {
            name: head.full_name.clone(),
            description: decl.head.description.as_ref().map(|text| text.0.value.clone()),
            inputs: head.inputs.clone(),
            output: head.output.clone(),
            cost: cost?,
            value: value?,
            can_rerun: decl.head.can_rerun.unwrap_or(head.trigger.is_some()),
            trigger: head.trigger,
            clear_blackboard: decl.head.clear_blackboard,
            hide: hide.into_iter().collect::<Option<_>>()?,
            post: post.into_iter().collect::<Option<_>>()?,
            retry: retry.map_or(Retry::default(), |retry| Retry {
                attempts: retry.attempts.get(),
                backoff: retry.backoff.0,
                multiplier: retry.multiplier,
                max: retry.max.0,
            }),
            timeout: layers.find(|settings| settings.timeout.as_ref()).map(|timeout| timeout.0),
            delay: decl.head.delay.map(|delay| delay.0),
            on_error: on_error?,
            settings,
            state: head.state,
            on_stuck: head.on_stuck,
            body: body?,
        };
        Some((
            lowered,
            pre.into_iter().collect::<Option<_>>()?,
            tool_types,
            achieved.map_or(Some(None), |a| a.map(Some))?,
        ))
    }

    /// Takes back findings that may only follow from a part of a declaration that could not be read.
    fn drop_consequences(&mut self, from: usize, place: Span) {
        let inside = |span: &Span| span.file == place.file && place.start <= span.start && span.end <= place.end;
        if self.read_errors.iter().any(inside) {
            let follows = |finding: &Diagnostic| {
                finding.code.starts_with("missing-")
                    || finding.code == "unknown-variable"
                    || finding.code == "unused-result"
            };
            let mut at = 0;
            self.strings.findings.retain(|finding| {
                at += 1;
                at <= from || !follows(finding)
            });
        }
    }

    /// Resolves an expr of a `pre` or `when` to what it asks for.
    fn requirement(
        &mut self,
        expr: &Expr,
        scope: &Scope,
        inputs: &[Input],
        state: Option<TypeId>,
    ) -> Option<Requirement> {
        let checked = self.strings.checked_expr(expr, scope)?;
        let (holds, range) = split_not(&expr.0.value);
        let text = expr.0.value.get(range).unwrap_or(&expr.0.value).trim();
        let condition = self.conditions.iter().position(|condition| condition.name == text);
        if let Some(at) = condition.filter(|_| !scope.vars.contains_key(text)) {
            return Some(Requirement { test: Test::Condition(at), holds, needs: Vec::new() });
        }
        let id = self.strings.compiled(text)?;
        let form = resolved_form(self.types(), scope, text);
        // With an input of its own name the whole of the action's inputs is bound, because each takes an object of its own.
        let names = |input: &Input| checked.mentions.contains(&input.name) || checked.guarded.contains(&input.name);
        let own = |input: &Input| self.type_names.get(&input.name) != Some(&input.type_id) || input.list;
        let binds = inputs.iter().any(|input| names(input) && own(input)) || checked.mentions.contains("inputs");
        let used: Vec<Input> = if binds { inputs.to_vec() } else { Vec::new() };
        let mut mentions = self.mentioned(&checked, inputs);
        let state = state.filter(|state| states::uses(self.types(), *state, &checked, inputs));
        mentions.extend(state);
        let mut conditions = Vec::new();
        for (at, condition) in self.conditions.iter().enumerate() {
            if checked.conditions.contains(&condition.name) {
                mentions.extend(condition.mentions.iter().copied());
                conditions.push(at);
                conditions.extend(condition.names.iter().copied());
            }
        }
        let known =
            self.exprs.iter().position(|known| known.form == form && known.inputs == used && known.state == state);
        let at = known.unwrap_or_else(|| {
            let ran = checked.ran.iter().cloned().collect();
            self.exprs.push(ExprFact {
                id,
                text: text.to_owned(),
                form,
                mentions,
                conditions,
                ran,
                inputs: used,
                state,
            });
            self.exprs.len() - 1
        });
        let needed = checked.mentions.iter().filter(|name| !scope.vars.contains_key(name.as_str()));
        let needs = needed.filter_map(|name| self.type_names.get(name).copied()).collect();
        Some(Requirement { test: Test::Expr(at), holds, needs })
    }

    /// Resolves a `post`: a condition, or `not` and a condition.
    fn post(&mut self, expr: &Expr) -> Option<(usize, bool)> {
        let (holds, range) = split_not(&expr.0.value);
        let text = &expr.0.value;
        let inner = text.get(range.clone()).unwrap_or(text);
        let name = inner.trim();
        let start = range.start + (inner.len() - inner.trim_start().len());
        let name = Name::new(name.to_owned(), expr.0.span_of(start..start + name.len()));
        let found = self.conditions.iter().position(|condition| condition.name == name.value);
        if found.is_none() {
            let names: Vec<String> = self.heads.visible.conditions.keys().map(|name| (*name).to_owned()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            self.report_unknown("unknown-condition", "condition", &name, &names);
        }
        Some((found?, holds))
    }

    /// A `cost` or `value`: a number, or an expr that is evaluated once per planning round.
    fn number(&mut self, expr: Option<&Expr>, scope: &Scope, is_cost: bool) -> Option<Number> {
        let Some(expr) = expr else { return Some(Number::Fixed(0.0)) };
        if let Ok(value) = expr.0.value.trim().parse::<f64>() {
            if !value.is_finite() || (is_cost && value < 0.0) {
                let message = format!("expected a number that is not below zero, found {value}");
                self.report(Diagnostic::error("out-of-range", expr.0.span, message));
                return None;
            }
            return Some(Number::Fixed(value));
        }
        let checked = self.strings.value_expr(expr, scope)?;
        let ty = checked.ty.unwrap_or(Ty::Any).defined();
        if !check::actions::is_number(&ty) {
            let found = ty.describe(self.types());
            self.report(Diagnostic::error("wrong-type", expr.0.span, format!("expected a number, found {found}")));
            return None;
        }
        self.strings.compiled(&expr.0.value).map(Number::Expr)
    }

    fn hidden(&mut self, name: &Name, head: &ActionHead<'_>) -> Option<usize> {
        let found = head.inputs.iter().position(|input| input.name == name.value);
        if found.is_none() && !head.unknown_inputs.contains(&name.value) {
            let names: Vec<&str> = head.inputs.iter().map(|input| input.name.as_str()).collect();
            self.report_unknown("unknown-input", "input", name, &names);
        }
        found
    }

    fn achieved(&mut self, achieves: &Achieves, head: &ActionHead<'_>, scope: &Scope) -> Option<AchievedGoal> {
        if let Some(text) = &achieves.description {
            self.strings.check(&text.0, &self.base_scope());
        }
        check::goals::export(self, achieves.export.as_ref());
        let value = self.number(achieves.value.as_ref(), scope, false)?;
        Some(AchievedGoal {
            name: Name::new(head.full_name.clone(), head.name.span),
            output: head.output.clone(),
            value,
            description: achieves.description.as_ref().map(|text| text.0.value.clone()),
            export: is_exported(achieves.export.as_ref()),
        })
    }

    fn on_error(&mut self, written: Option<&OnErrorDecl>, head: &ActionHead<'_>, scope: &Scope) -> Option<OnError> {
        let data = match written {
            None | Some(OnErrorDecl::Word(OnErrorWord::Replan)) => return Some(OnError::Replan),
            Some(OnErrorDecl::Word(OnErrorWord::Fail)) => return Some(OnError::Fail),
            Some(OnErrorDecl::Output(data)) => data,
        };
        let checked = head.output_known && head.output.kind != OutputKind::None;
        let shape = checked.then(|| head.output.shape(self.types()));
        let lowered = self.strings.data(data, shape.as_ref(), scope)?;
        if let (true, Data::Literal(value)) = (checked, &lowered) {
            let valid = self.validators.validate_output(&head.output, value.clone(), &NoRules, Tags::Inferred);
            for violation in valid.err().into_iter().flatten() {
                let span = super::providers::place_of(&data.0, &violation.path);
                self.report(Diagnostic::error("wrong-type", span, violation.message));
            }
        }
        Some(OnError::Output(lowered))
    }

    fn lower_goals(&mut self, achieved: &[(usize, AchievedGoal)]) -> Goals {
        let heads = self.heads;
        let scope = self.planning_scope(&self.base_scope());
        let mut goals = Goals::default();
        for decl in heads.visible.goals.values() {
            let when: Vec<Option<Requirement>> =
                decl.decl.when.iter().map(|expr| self.requirement(expr, &scope, &[], None)).collect();
            let value = self.number(decl.decl.value.as_ref(), &scope, false);
            if let Some(text) = &decl.decl.description {
                self.strings.check(&text.0, &self.base_scope());
            }
            check::goals::export(self, decl.decl.export.as_ref());
            let mut resolve = Resolve { types: &heads.types, findings: &mut self.strings.findings };
            let output = resolve.output(&decl.decl.output);
            check::goals::output(self, &decl.decl.output, output.as_ref());
            let (Some(output), Some(value), Some(when)) = (output, value, when.into_iter().collect()) else { continue };
            goals.goals.push(Goal {
                name: decl.name.value.clone(),
                description: decl.decl.description.as_ref().map(|text| text.0.value.clone()),
                output,
                action: None,
                value,
                export: is_exported(decl.decl.export.as_ref()),
            });
            goals.when.push(when);
        }
        for (action, goal) in achieved {
            if let Some(earlier) = heads.visible.goals.get(goal.name.value.as_str()) {
                let (own, other) = (&goal.name, earlier.name);
                let is_first = own.span.file == other.span.file && own.span.start < other.span.start;
                let (later, earlier) = if is_first { (other, own) } else { (own, other) };
                self.report(super::visible::duplicate("goal", later, earlier));
                continue;
            }
            goals.goals.push(Goal {
                name: goal.name.value.clone(),
                description: goal.description.clone(),
                output: goal.output.clone(),
                action: Some(*action),
                value: goal.value,
                export: goal.export,
            });
            goals.when.push(Vec::new());
        }
        if let Some(reply) = super::chat::reply_goal(self) {
            goals.goals.push(reply);
            goals.when.push(Vec::new());
        }
        goals
    }

    fn finish(mut self, actions: Actions, goals: Goals, counts: Counts) -> AgentOutcome {
        let module = &self.loaded.modules[self.heads.module.0];
        let has_errors =
            |findings: &[Diagnostic]| findings.iter().any(|finding| finding.severity == crate::diag::Severity::Error);
        let mut agent = None;
        if let (Some(name), false) = (&self.heads.own.agent, has_errors(&self.strings.findings)) {
            let keep: Vec<TypeId> =
                self.heads.own.keep.iter().filter_map(|name| self.types().id(&name.value)).collect();
            let lowered = lower(Sketch {
                types: self.types(),
                keep: &keep,
                conditions: &self.conditions,
                exprs: &self.exprs,
                actions: &actions.actions,
                pre: &actions.pre,
                tool_types: &actions.tool_types,
                goals: &goals.goals,
                when: &goals.when,
            });
            match lowered.domain.compile() {
                Ok(domain) => {
                    let rules = self.rules();
                    let supervisor = Arc::new(self.supervisor());
                    let chat = super::chat::lower(&mut self, &goals.goals);
                    let templates = self.templates();
                    let embedding = super::choosing::embedding(self.loaded, &self.heads.visible.modules);
                    let written = self.written();
                    let references = std::mem::take(&mut self.referencing).into_table();
                    let AgentCx { heads, config, conditions, tools, tooling, guardrails, models, .. } = &mut self;
                    let tooling = std::mem::take(tooling);
                    agent = Some(Agent {
                        name: name.value.clone(),
                        description: heads.own.description.as_ref().map(|text| text.0.value.clone()),
                        version: heads.own.version.as_ref().map(|version| version.0.value.clone()),
                        file: module.path.clone(),
                        types: Arc::clone(&heads.types),
                        validators: Arc::new(Validators::new(Arc::clone(&heads.types))),
                        templates,
                        rules,
                        config: std::mem::take(config),
                        inputs: heads.inputs.clone(),
                        inputs_declared: heads.inputs_declared,
                        actions: actions.actions,
                        goals: goals.goals,
                        conditions: std::mem::take(conditions),
                        models: std::mem::take(models),
                        embedding,
                        chat,
                        tools: std::mem::take(tools),
                        tool_groups: tooling.groups,
                        object_tools: tooling.of_objects,
                        offers: tooling.offers,
                        guardrails: std::mem::take(guardrails).into(),
                        references,
                        planner: heads.own.planner.as_ref().map_or(PlannerKind::Goap, |planner| planner.r#type),
                        supervisor,
                        limits: Limits::default(),
                        concurrency: heads.own.concurrency.map_or(1, |count| count.get()),
                        keep,
                        facts: lowered.facts,
                        domain: Arc::new(domain),
                        operators: lowered.operators,
                        unsupported: Vec::new(),
                        written,
                    });
                }
                Err(error) => {
                    self.report(Diagnostic::error("contradiction", name.span, error.to_string()));
                }
            }
        }
        if let Some(agent) = &mut agent {
            agent.limits = check::limits::resolve(self.loaded, self.heads.own);
            // What could not be read may be what leads there.
            if !self.has_read_errors() {
                check::reachability::check(&mut self, agent);
            }
            agent.unsupported = std::mem::take(&mut self.unsupported);
        }
        AgentOutcome {
            agent,
            findings: self.strings.findings,
            read: self.read,
            used_templates: self.strings.used,
            missing_env: self.missing_env,
            counts,
            uses: self.uses,
            recipes: self.recipes,
            looks_around: self.strings.looks_around,
        }
    }

    /// All templates and exprs, with the files that they draw in.
    fn templates(&mut self) -> Arc<Templates> {
        let builder = self.strings.builder.take();
        let mut builder = builder.unwrap_or_else(|| TemplatesBuilder::new(Arc::clone(&self.heads.types)));
        for name in &self.strings.used {
            builder.file(name, self.strings.files.source(name).unwrap_or_default());
        }
        builder.build()
    }

    /// The rules of all types, compiled, by their text.
    fn rules(&mut self) -> IndexMap<String, crate::prompt::ExprId> {
        let types = Arc::clone(&self.heads.types);
        let objects = types.iter().filter_map(|(_, def)| match &def.kind {
            TypeKind::Object(object) => Some(object),
            _ => None,
        });
        let checks = objects.flat_map(|object| object.rules.iter().map(|rule| &rule.check));
        checks.filter_map(|check| Some((check.clone(), self.strings.compiled(check)?))).collect()
    }

    /// What the agent was compiled from, for comparing programs.
    fn written(&self) -> Written {
        let modules = super::slice::written(self.loaded, self.slices, self.heads.module, &self.uses);
        let used = self.strings.used.iter();
        let templates =
            used.filter_map(|name| Some((name.clone(), Arc::clone(&self.loaded.templates.get(name)?.text))));
        let schemas = self.types().iter().filter_map(|(_, def)| match &def.kind {
            TypeKind::Schema(schema) => Some((def.name.clone(), schema.clone())),
            _ => None,
        });
        Written {
            modules,
            templates: templates.collect(),
            schemas: schemas.collect(),
            references: self.references_written(),
        }
    }
}

/// The finding for a name that is not declared, with the nearest that are.
pub(crate) fn unknown_name(code: &'static str, what: &str, name: &Name, candidates: &[&str]) -> Diagnostic {
    let diagnostic = Diagnostic::error(code, name.span, format!("there is no {what} `{}`", name.value));
    match suggest::nearest(&name.value, candidates.iter().copied()).as_slice() {
        [] if candidates.is_empty() => {
            diagnostic.help(format!("none is visible here; declare the {what}, or import the file that does"))
        }
        [] if candidates.len() <= 12 => diagnostic.help(format!("there are {}", listed(candidates))),
        [] => diagnostic,
        [only] => diagnostic.help(format!("did you mean `{only}`?")).fix(name.span, only.clone()),
        _ => diagnostic.help(suggest::did_you_mean(&name.value, candidates.iter().copied())),
    }
}

fn is_exported(export: Option<&Export>) -> bool {
    match export {
        None => false,
        Some(Export::Flag(flag)) => *flag,
        Some(Export::Record(_)) => true,
    }
}
