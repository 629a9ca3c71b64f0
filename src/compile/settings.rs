//! Models, personas and what else holds for the calls to a model of one action (language.md 10 and 11).

use crate::action::context::CallSettings;
use crate::decl::Name;
use crate::decl::models::LlmRecord;
use crate::decl::module::Persona;
use crate::decl::workflow::Settings;
use crate::diag::Diagnostic;
use crate::llm::{Options, Thinking, ToolChoice};
use crate::prompt::{Scope, TemplateId};

use super::agent::AgentCx;

/// Where in an agent's table the models of calls stand that do not say otherwise.
pub(crate) const DEFAULT_MODELS: usize = 0;

/// Turns of a tool loop, without `max_turns`.
pub(crate) const TURNS: u32 = 20;

/// The settings that hold for one action: its own, then the agent's defaults, then the project's. Each is a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers<'a> {
    pub(crate) layers: Vec<&'a Settings>,
}

impl<'a> Layers<'a> {
    /// The same settings under an action's own.
    pub(crate) fn under(&self, own: &'a Settings) -> Layers<'a> {
        let layers = std::iter::once(own).chain(self.layers.iter().copied());
        Layers { layers: layers.collect() }
    }

    /// The nearest value of one setting.
    pub(crate) fn find<T>(&self, of: impl Fn(&'a Settings) -> Option<&'a T>) -> Option<&'a T> {
        self.layers.iter().find_map(|settings| of(settings))
    }
}

impl AgentCx<'_> {
    /// Resolves the settings of an action's prompts; `scope` is what its strings see.
    pub(crate) fn settings(&mut self, layers: &Layers<'_>, scope: &Scope) -> CallSettings {
        let models = layers.find(|settings| settings.llm.as_ref()).map_or(DEFAULT_MODELS, |choice| self.models(choice));
        let persona = layers.find(|settings| settings.persona.as_ref());
        let contributors = layers.find(|settings| settings.contributors.as_ref());
        let mut settings = CallSettings {
            models,
            persona: persona.map(|name| self.persona(name, scope)).unwrap_or_default(),
            max_turns: layers.find(|settings| settings.max_turns.as_ref()).map_or(TURNS, |turns| turns.get()),
            guardrails: self.guardrails_of(layers),
            ..CallSettings::default()
        };
        let instructs = settings.guardrails.iter().filter_map(|at| self.guardrails.get(*at)?.instruct);
        settings.guardrail_text = instructs.collect();
        for contributor in contributors.into_iter().flat_map(|list| list.iter()) {
            let when = contributor.when.as_ref().map(|when| self.strings.expr(when, scope));
            let text = self.strings.template(&contributor.text.0, scope, ("", ""));
            if let (Some(text), None | Some(Some(_))) = (text, when) {
                settings.contributors.push((when.flatten(), text));
            }
        }
        settings
    }

    /// How a supervisor is asked: its own model, else that of `defaults`; the guardrails of all calls hold.
    pub(crate) fn supervisor(&mut self) -> CallSettings {
        let layers = self.default_layers();
        let planner = self.heads.own.planner.as_ref();
        let choice = planner.and_then(|planner| planner.llm.as_ref());
        let choice = choice.or_else(|| layers.find(|settings| settings.llm.as_ref()));
        let models = choice.map_or(DEFAULT_MODELS, |choice| self.models(choice));
        let guardrails = self.guardrails_of(&layers);
        let instructs = guardrails.iter().filter_map(|at| self.guardrails.get(*at)?.instruct).collect();
        let max_turns = planner.and_then(|planner| planner.max_turns.as_ref());
        CallSettings {
            models,
            max_turns: max_turns.map_or(TURNS, |turns| turns.get()),
            guardrail_text: instructs,
            guardrails,
            ..CallSettings::default()
        }
    }

    /// The lines of a persona, compiled.
    pub(crate) fn persona(&mut self, name: &Name, scope: &Scope) -> Vec<TemplateId> {
        let personas = &self.heads.visible.personas;
        let Some(persona) = personas.get(name.value.as_str()) else {
            let candidates: Vec<&str> = personas.keys().copied().collect();
            self.report_unknown("unknown-persona", "persona", name, &candidates);
            return Vec::new();
        };
        if self.heads.visible.modules.get(persona.rank).copied() == self.loaded.project {
            self.uses.personas.insert(name.value.clone());
        }
        let persona: &Persona = persona.decl;
        let texts = [
            &persona.role,
            &persona.goal,
            &persona.backstory,
            &persona.name,
            &persona.persona,
            &persona.objective,
            &persona.voice,
        ];
        let lines = texts.into_iter().zip(PERSONA_LINES).filter_map(|(text, around)| Some((text.as_ref()?, around)));
        lines.filter_map(|(text, around)| self.strings.template(&text.0, scope, around)).collect()
    }
}

/// What stands around the texts of a persona, in the order of its lines.
pub(crate) const PERSONA_LINES: [(&str, &str); 7] = [
    ("Role: ", ""),
    ("Goal: ", ""),
    ("Backstory: ", ""),
    ("You are ", "."),
    ("Your persona: ", "."),
    ("Your objective is ", "."),
    ("Your voice: ", "."),
];

/// Lays the settings of a record over options; tells what is wrong with one of them.
pub(crate) fn lay_over(record: &LlmRecord, options: &mut Options) -> Option<Diagnostic> {
    let count = |count: Option<std::num::NonZeroU32>| count.map(std::num::NonZeroU32::get);
    options.temperature = record.temperature.or(options.temperature);
    options.top_p = record.top_p.or(options.top_p);
    options.top_k = count(record.top_k).or(options.top_k);
    options.max_tokens = count(record.max_tokens).or(options.max_tokens);
    options.seed = record.seed.and_then(|seed| i64::try_from(seed).ok()).or(options.seed);
    options.timeout = record.timeout.map(|timeout| timeout.0).or(options.timeout);
    options.cache = record.cache.or(options.cache);
    options.parallel_tool_calls = record.parallel_tool_calls.or(options.parallel_tool_calls);
    if let Some(stop) = &record.stop {
        options.stop = stop.iter().map(|text| text.value.clone()).collect();
    }
    if let Some(choice) = &record.tool_choice {
        options.tool_choice = Some(ToolChoice::from_word(&choice.value));
    }
    if let Some(thinking) = &record.thinking {
        match Thinking::from_value(&thinking.value()) {
            Ok(thinking) => options.thinking = Some(thinking),
            Err(message) => return Some(Diagnostic::error("wrong-shape", thinking.0.span, message)),
        }
    }
    None
}
