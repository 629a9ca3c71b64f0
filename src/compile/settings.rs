//! Models, personas and what else holds for the calls to a model of one action (language.md 10 and 11).

use crate::action::context::{CallSettings, ModelChoice};
use crate::decl::Name;
use crate::decl::models::{Auto as WrittenAuto, LlmChoice, LlmRecord};
use crate::decl::module::Persona;
use crate::decl::workflow::Settings;
use crate::diag::{Diagnostic, suggest};
use crate::llm::{Auto, Options, Thinking, ToolChoice};
use crate::prompt::{Scope, TemplateId};

use super::agent::AgentCx;

/// The role of the model that nothing says otherwise about.
const DEFAULT_ROLE: &str = "default";
/// Most roles that may name one another in a row.
const ROLE_DEPTH_MAX: usize = 8;

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
        let models = match layers.find(|settings| settings.llm.as_ref()) {
            Some(choice) => self.models(choice, 0),
            None => self.default_models(),
        };
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
        let models = match choice.or_else(|| layers.find(|settings| settings.llm.as_ref())) {
            Some(choice) => self.models(choice, 0),
            None => self.default_models(),
        };
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

    /// The model of calls that do not say otherwise: the nearest `models.default`.
    pub(crate) fn default_models(&mut self) -> Vec<ModelChoice> {
        let modules = self.heads.visible.modules.iter();
        let mut defaults = modules.filter_map(|id| self.loaded.modules[id.0].decl.models.as_ref()?.default.as_ref());
        let mut models = match defaults.next() {
            Some(choice) => self.models(choice, 0),
            None => vec![chosen(String::new())],
        };
        if let Some(first) = models.first_mut() {
            first.roles.insert(0, DEFAULT_ROLE.to_owned());
        }
        models
    }

    /// The embedding model: the nearest `models.embedding`.
    pub(crate) fn embedding(&self) -> Option<String> {
        let mut modules = self.heads.visible.modules.iter();
        let named = |id: &crate::compile::load::ModuleId| {
            self.loaded.modules[id.0].decl.models.as_ref()?.embedding.as_ref().map(|name| name.value.clone())
        };
        modules.find_map(named)
    }

    /// Resolves an `llm:` to the models that are tried in order.
    pub(crate) fn models(&mut self, choice: &LlmChoice, depth: usize) -> Vec<ModelChoice> {
        match choice {
            LlmChoice::Name(name) => self.named_model(name, depth),
            LlmChoice::Record(record) => self.record_models(record, depth),
        }
    }

    fn named_model(&mut self, name: &Name, depth: usize) -> Vec<ModelChoice> {
        if name.value.contains('/') {
            self.check_provider(name);
            return vec![chosen(name.value.clone())];
        }
        let roles = &self.heads.visible.roles;
        let Some(role) = roles.get(name.value.as_str()) else {
            if self.heads.visible.broken.contains(name.value.as_str()) {
                return Vec::new();
            }
            let candidates = roles.keys().copied();
            let diagnostic = Diagnostic::error("unknown-role", name.span, format!("there is no role `{}`", name.value));
            let near = suggest::nearest(&name.value, candidates.clone());
            let help = suggest::did_you_mean(&name.value, candidates).unwrap_or_else(|| {
                format!(
                    "declare it: `models: {{roles: {{{}: provider/model}}}}`, or name a model as `provider/id`",
                    name.value
                )
            });
            let mut diagnostic = diagnostic.help(help);
            if let [only] = near.as_slice() {
                diagnostic = diagnostic.fix(name.span, only.clone());
            }
            self.report(diagnostic);
            return Vec::new();
        };
        if depth >= ROLE_DEPTH_MAX {
            self.report(
                Diagnostic::error("role-cycle", name.span, format!("the role `{}` leads back to itself", name.value))
                    .help("let it name a model as `provider/id`"),
            );
            return Vec::new();
        }
        let mut models = self.models(role.decl, depth + 1);
        if let Some(first) = models.first_mut() {
            first.roles.insert(0, name.value.clone());
        }
        models
    }

    fn record_models(&mut self, record: &LlmRecord, depth: usize) -> Vec<ModelChoice> {
        let mut models = match (&record.role, &record.model, &record.auto) {
            (Some(role), ..) => self.named_model(role, depth),
            (None, Some(model), _) => {
                self.check_provider(model);
                vec![chosen(model.value.clone())]
            }
            (None, None, Some(auto)) => {
                let auto = match auto {
                    WrittenAuto::Cheapest => Auto::Cheapest,
                    WrittenAuto::Best => Auto::Best,
                    WrittenAuto::Fastest => Auto::Fastest,
                };
                vec![ModelChoice { auto: Some(auto), ..chosen(String::new()) }]
            }
            (None, None, None) => self.default_models(),
        };
        let fallback: Vec<ModelChoice> = record
            .fallback
            .iter()
            .flat_map(|list| list.iter())
            .flat_map(|name| self.named_model(name, depth))
            .collect();
        if let Some(first) = models.first_mut() {
            self.apply(record, &mut first.options);
            first.retries = record.retries.map(|retries| retries.min(u64::from(u32::MAX)) as u32).or(first.retries);
        }
        if !fallback.is_empty() {
            models.truncate(1);
            models.extend(fallback);
        }
        models
    }

    /// Lays the settings of a record over options.
    fn apply(&mut self, record: &LlmRecord, options: &mut Options) {
        if let Some(wrong) = lay_over(record, options) {
            self.report(wrong);
        }
    }

    /// Reports a model whose provider is neither declared nor known.
    pub(crate) fn check_provider(&mut self, model: &Name) {
        let Some((provider, id)) = model.value.split_once('/') else {
            self.report(
                Diagnostic::error("unknown-provider", model.span, format!("`{}` names no provider", model.value))
                    .help("write a model as `provider/id`, such as `openai/gpt-4.1-mini`"),
            );
            return;
        };
        if id.is_empty() || self.providers.contains_key(provider) {
            return;
        }
        let candidates: Vec<&str> = self.providers.keys().map(String::as_str).collect();
        let at = crate::source::Span::new(model.span.file, model.span.start, model.span.end);
        let near = suggest::did_you_mean(provider, candidates.iter().copied());
        let help = near.unwrap_or_else(|| {
            format!("declare it in the project file: `providers: {{{provider}: {{kind: openai, base_url: …}}}}`")
        });
        self.report(Diagnostic::error("unknown-provider", at, format!("there is no provider `{provider}`")).help(help));
    }

    /// The lines of a persona, compiled.
    pub(crate) fn persona(&mut self, name: &Name, scope: &Scope) -> Vec<TemplateId> {
        let personas = &self.heads.visible.personas;
        let Some(persona) = personas.get(name.value.as_str()) else {
            let candidates: Vec<&str> = personas.keys().copied().collect();
            self.report_unknown("unknown-persona", "persona", name, &candidates);
            return Vec::new();
        };
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

/// A model that no role names, asked in the usual way.
fn chosen(model: String) -> ModelChoice {
    ModelChoice { roles: Vec::new(), model, auto: None, options: Options::default(), retries: None }
}

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
