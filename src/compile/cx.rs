//! What a body sees of the declarations around it: the compiler's side of [`LowerCx`].

use std::path::Path;
use std::sync::Arc;

use crate::action::context::CallSettings;
use crate::action::lower::{AgentRef, Extra, LowerCx, NestedSettings, ToolRef};
use crate::decl::models::LlmChoice;
use crate::decl::{Data as WrittenData, Expr, Name, Template};
use crate::diag::{Diagnostic, suggest};
use crate::llm::Secret;
use crate::prompt::{Data, ExprId, Scope, TemplateId, Ty};
use crate::value::{Output, OutputKind, Shape, TypeId, Types};
use crate::world::{ReadError, normal};

use super::agent::AgentCx;
use super::env;
use super::load::slashed;
use super::types;

/// The declarations around one body.
pub(crate) struct BodyCx<'a, 'b> {
    pub(crate) agent: &'b mut AgentCx<'a>,
    /// What its templates see.
    pub(crate) scope: Scope,
    /// What its exprs see: conditions too.
    pub(crate) expr_scope: Scope,
    pub(crate) output: Output,
    /// False for tools and after a finding: anything may be given.
    pub(crate) output_checked: bool,
    pub(crate) settings: Arc<CallSettings>,
}

impl BodyCx<'_, '_> {
    fn with(scope: &Scope, extra: Extra<'_>) -> Scope {
        let mut scope = scope.clone();
        scope.vars.extend(extra.iter().cloned());
        scope
    }
}

impl LowerCx for BodyCx<'_, '_> {
    fn types(&self) -> &Types {
        &self.agent.strings.types
    }

    fn output(&self) -> &Output {
        &self.output
    }

    fn settings(&self) -> Arc<CallSettings> {
        Arc::clone(&self.settings)
    }

    fn template(&mut self, text: &Template, extra: Extra<'_>) -> Option<TemplateId> {
        let scope = Self::with(&self.scope, extra);
        self.agent.strings.template(&text.0, &scope, ("", ""))
    }

    fn template_file(&mut self, name: &Name, extra: Extra<'_>) -> Option<TemplateId> {
        let file = match name.value.strip_suffix(".jinja") {
            Some(_) => name.value.clone(),
            None => format!("{}.jinja", name.value),
        };
        if !self.agent.strings.file_ids.contains_key(&file) {
            let names = self.agent.strings.file_ids.keys();
            let names: Vec<&str> = names.map(|name| name.strip_suffix(".jinja").unwrap_or(name)).collect();
            let message = format!("there is no template `{}/{file}`", self.agent.loaded.layout.prompts);
            let near = suggest::nearest(&name.value, names.iter().copied());
            let mut diagnostic = Diagnostic::error("unknown-template", name.span, message)
                .help(suggest::did_you_mean(&name.value, names.iter().copied()));
            if let [only] = near.as_slice() {
                diagnostic = diagnostic.fix(name.span, only.clone());
            }
            self.agent.report(diagnostic);
            return None;
        }
        let scope = Self::with(&self.scope, extra);
        self.agent.strings.file(&file, &scope)
    }

    fn expr(&mut self, expr: &Expr, extra: Extra<'_>) -> Option<ExprId> {
        let scope = Self::with(&self.expr_scope, extra);
        self.agent.strings.expr(expr, &scope)
    }

    fn expr_ty(&mut self, expr: &Expr, extra: Extra<'_>) -> Ty {
        let scope = Self::with(&self.expr_scope, extra);
        let checked = crate::prompt::check_expr(&self.agent.strings.types, &scope, &expr.0.value);
        checked.ty.unwrap_or(Ty::Any)
    }

    fn data(&mut self, data: &WrittenData, expected: Option<&Shape>, extra: Extra<'_>) -> Option<Data> {
        let scope = Self::with(&self.scope, extra);
        let types = &self.agent.strings.types;
        match super::states::filled(types, data, expected, &scope, extra) {
            Some(filled) => self.agent.strings.data(&filled, expected, &scope),
            None => self.agent.strings.data(data, expected, &scope),
        }
    }

    fn assume(&mut self, test: &Expr, holds: bool) {
        for scope in [&mut self.scope, &mut self.expr_scope] {
            scope.assumed.push((test.0.value.clone(), holds));
        }
    }

    fn forget(&mut self) {
        for scope in [&mut self.scope, &mut self.expr_scope] {
            scope.assumed.clear();
        }
    }

    fn output_data(&mut self, data: &WrittenData, extra: Extra<'_>) -> Option<Data> {
        let checked = self.output_checked && self.output.kind != OutputKind::None;
        let shape = checked.then(|| self.output.shape(&self.agent.strings.types));
        self.data(data, shape.as_ref(), extra)
    }

    fn type_named(&mut self, name: &Name) -> Option<TypeId> {
        types::named(&self.agent.strings.types, name, &mut self.agent.strings.findings)
    }

    fn agent(&mut self, name: &Name) -> Option<AgentRef> {
        let found = self.agent.agents.get(&name.value).cloned();
        if found.is_none() {
            let names: Vec<&str> = self.agent.agent_names.iter().map(String::as_str).collect();
            self.agent.report_unknown("unknown-agent", "agent", name, &names);
        }
        found
    }

    fn tool(&mut self, name: &Name) -> Option<ToolRef> {
        self.agent.tool_ref(name)
    }

    fn llm(&mut self, choice: &LlmChoice) -> Option<Arc<CallSettings>> {
        let models = self.agent.models(choice);
        Some(Arc::new(CallSettings { models, ..CallSettings::clone(&self.settings) }))
    }

    fn settings_under(&mut self, own: &NestedSettings, base: &CallSettings) -> Arc<CallSettings> {
        let mut settings = base.clone();
        if let Some(choice) = &own.llm {
            settings.models = self.agent.models(choice);
        }
        if let Some(persona) = &own.persona {
            settings.persona = self.agent.persona(persona, &self.scope);
        }
        if let Some(tools) = &own.tools {
            let scope = self.scope.clone();
            settings.tools = Some(self.agent.nested_tools(tools, &scope));
        }
        if let Some(references) = &own.references {
            settings.references = self.agent.references_named(references);
        }
        self.agent.long_references(&settings);
        Arc::new(settings)
    }

    fn file(&mut self, path: &Name) -> Option<Arc<str>> {
        let Some(normal) = normal(Path::new(&path.value)) else {
            self.agent.report(Diagnostic::error(
                "path-escapes",
                path.span,
                format!("`{}` leads out of the project", path.value),
            ));
            return None;
        };
        self.agent.read.push(normal.clone());
        match self.agent.loaded.world.read_bytes(&normal) {
            Ok(bytes) => Some(Arc::from(String::from_utf8_lossy(&bytes).as_ref())),
            Err(ReadError::NotFound) => {
                let dir = normal.parent().unwrap_or(Path::new("")).to_owned();
                let names: Vec<String> = self.agent.loaded.world.list(&dir).iter().map(slashed).collect();
                self.agent.report(
                    Diagnostic::error("file-not-found", path.span, format!("there is no file `{}`", path.value))
                        .help(suggest::did_you_mean(&path.value, names.iter().map(String::as_str))),
                );
                None
            }
            Err(error) => {
                let message = format!("cannot read `{}`: {error}", path.value);
                self.agent.report(Diagnostic::error("unreadable-file", path.span, message));
                None
            }
        }
    }

    fn environment(&mut self, text: &Template) -> Option<Vec<(String, Secret)>> {
        let mut found = Vec::new();
        for written in env::references(&text.0.value) {
            let resolved = env::resolve(&written, self.agent.loaded.world);
            if let Some(variable) = resolved.missing.first() {
                self.agent.missing_env(variable, text.0.span);
            }
            found.push((written, Secret::new(resolved.value)));
        }
        Some(found)
    }

    fn check_variable(&mut self, name: &Name, what: &str) {
        super::check::names::check_variable(name, what, &mut self.agent.strings.findings);
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.agent.report(diagnostic);
    }
}
