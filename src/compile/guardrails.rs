//! Guardrails, compiled: which an agent has, and which of them hold for an action (language.md 10).

use std::sync::Arc;

use regex::RegexBuilder;

use crate::action::context::CallSettings;
use crate::decl::module::{Guardrail as Written, GuardrailAction, GuardrailCheck, GuardrailScope};
use crate::decl::{Json, Name};
use crate::program::guardrail::{Decider, Guardrail};
use crate::prompt::{Scope, Ty};
use crate::value::RawSchema;

use super::agent::AgentCx;
use super::check::guardrails::PATTERN_BYTES_MAX;
use super::load::schema_name;
use super::settings::{DEFAULT_MODELS, Layers};

impl AgentCx<'_> {
    /// Compiles the guardrails that the agent sees. One that is wrong is reported, and left out.
    pub(crate) fn lower_guardrails(&mut self, defaults: &Layers<'_>) {
        let heads = self.heads;
        for decl in heads.visible.guardrails.values() {
            let lowered = self.guardrail(decl.name, decl.decl, defaults);
            self.guardrails.extend(lowered);
        }
    }

    fn guardrail(&mut self, name: &Name, written: &Written, defaults: &Layers<'_>) -> Option<Guardrail> {
        let base = self.base_scope();
        let decider = self.decider(written, &base, defaults);
        let instruct = written.instruct.as_ref().map(|text| self.strings.template(&text.0, &base, ("", "")));
        Some(Guardrail {
            name: name.value.clone(),
            checks: written.check.iter().copied().collect(),
            decider: decider.map_or(Some(None), |decider| decider.map(Some))?,
            action: written.action.unwrap_or(GuardrailAction::Block),
            instruct: instruct.map_or(Some(None), |text| text.map(Some))?,
            named: written.scope == Some(GuardrailScope::Named),
        })
    }

    /// What it decides by; the inner `None` where that is wrong, which was reported.
    #[allow(clippy::option_option, reason = "none is declared, or what is declared is wrong")]
    fn decider(&mut self, written: &Written, base: &Scope, defaults: &Layers<'_>) -> Option<Option<Decider>> {
        let scope = looked_at(base);
        if let Some(pattern) = &written.pattern {
            let regex = RegexBuilder::new(&pattern.value).size_limit(PATTERN_BYTES_MAX).build();
            return Some(regex.ok().map(Decider::Pattern));
        }
        if let Some(expr) = &written.expr {
            let scope = super::strings::truth_scope(&self.expr_scope(&scope));
            return Some(self.strings.expr(expr, &scope).map(Decider::Expr));
        }
        if let Some(rule) = &written.prompt {
            let checked = crate::prompt::check_template(self.strings.files, &self.strings.types, &scope, &rule.0.value);
            let shows = ["text", "value"]
                .iter()
                .any(|name| checked.mentions.contains(*name) || checked.guarded.contains(*name));
            let rule = self.strings.template(&rule.0, &scope, ("", ""));
            let choice = defaults.find(|settings| settings.llm.as_ref());
            let models = choice.map_or(DEFAULT_MODELS, |choice| self.models(choice));
            // A judge has neither tools nor guardrails of its own, and what it reads is told to no one.
            let settings = Arc::new(CallSettings { models, private: true, ..CallSettings::default() });
            return Some(rule.map(|rule| Decider::Judge { rule, shows, settings }));
        }
        written.schema.as_ref().map(|schema| self.guardrail_schema(schema))
    }

    fn guardrail_schema(&self, written: &Json) -> Option<Decider> {
        let schema = match schema_name(written) {
            // A file that cannot be read was reported when it was read.
            Some(file) => serde_json::Value::clone(self.loaded.schemas.get(&file.value)?.as_ref()?),
            None => written.value(),
        };
        RawSchema::new(schema).ok().map(|schema| Decider::Schema(Box::new(schema)))
    }

    /// The guardrails that hold for calls with these settings: all but the named ones, and those named.
    pub(crate) fn guardrails_of(&mut self, layers: &Layers<'_>) -> Vec<usize> {
        let named = layers.find(|settings| settings.guardrails.as_ref());
        let is_named = |guardrail: &Guardrail| {
            named.into_iter().flat_map(|list| list.iter()).any(|name| name.value == guardrail.name)
        };
        let of_all = self.guardrails.iter().enumerate();
        of_all.filter(|(_, one)| !one.named || is_named(one)).map(|(at, _)| at).collect()
    }
}

/// What an expr or a prompt of a guardrail sees beside what is seen everywhere.
fn looked_at(base: &Scope) -> Scope {
    let checks = GuardrailCheck::WORDS.iter().map(|word| serde_json::Value::from(*word)).collect();
    base.clone()
        .with("text", Ty::Str)
        .with("value", Ty::Any)
        .with("check", Ty::Enum(Arc::new(checks)))
        .with("tool", Ty::Str)
}
