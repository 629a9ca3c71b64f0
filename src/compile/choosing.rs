//! Which models are meant: roles and defaults resolved to the models that are tried, in order (language.md 11).
//!
//! It is apart from the rest of compiling an agent because an edit of `models` is cured by this alone: agents keep what
//! they wrote, and resolve it again.

use indexmap::{IndexMap, IndexSet};

use crate::action::context::ModelChoice;
use crate::decl::models::{Auto as WrittenAuto, LlmChoice, LlmRecord};
use crate::decl::{Module, Name};
use crate::diag::{Diagnostic, suggest};
use crate::llm::{Auto, Options, ProviderConfig};

use super::agent::AgentCx;
use super::load::{Loaded, ModuleId};
use super::settings::lay_over;
use super::slice::Uses;
use super::visible::{Names, closure, roles};

/// The role of the model that nothing says otherwise about.
const DEFAULT_ROLE: &str = "default";
/// Most roles that may name one another in a row.
const ROLE_DEPTH_MAX: usize = 8;

/// What an agent's list of models was made from: as written, or nothing for calls that do not say otherwise.
pub(crate) type Recipe = Option<LlmChoice>;

/// What one agent chooses its models among.
pub(crate) struct Choosing<'a> {
    pub(crate) loaded: &'a Loaded<'a>,
    pub(crate) modules: &'a [ModuleId],
    pub(crate) roles: &'a Names<'a, LlmChoice>,
    pub(crate) broken: &'a IndexSet<&'a str>,
    pub(crate) providers: &'a IndexMap<String, ProviderConfig>,
    pub(crate) findings: Vec<Diagnostic>,
    pub(crate) uses: Uses,
}

/// The lists of models of an agent that was compiled before, made again; none when something is wrong with them now.
pub(super) fn again(
    loaded: &Loaded<'_>,
    providers: &IndexMap<String, ProviderConfig>,
    id: ModuleId,
    recipes: &[Recipe],
) -> Option<(Vec<Vec<ModelChoice>>, Uses)> {
    let modules = closure(loaded, id);
    let mut findings = Vec::new();
    let roles = roles(loaded, &modules, &mut findings);
    let broken = IndexSet::new();
    let mut choosing = Choosing {
        loaded,
        modules: &modules,
        roles: &roles,
        broken: &broken,
        providers,
        findings,
        uses: Uses::default(),
    };
    choosing.check(&loaded.modules[id.0].decl);
    let lists = recipes.iter().map(|recipe| choosing.list(recipe)).collect();
    choosing.findings.is_empty().then_some((lists, choosing.uses))
}

/// The embedding model that modules name: the nearest.
pub(super) fn embedding(loaded: &Loaded<'_>, modules: &[ModuleId]) -> Option<String> {
    let named =
        |id: &ModuleId| loaded.modules[id.0].decl.models.as_ref()?.embedding.as_ref().map(|name| name.value.clone());
    modules.iter().find_map(named)
}

impl AgentCx<'_> {
    /// Resolves an `llm:`, and gives its position in the agent's table.
    pub(crate) fn models(&mut self, choice: &LlmChoice) -> usize {
        self.model_list(Some(choice.clone()))
    }

    /// Resolves what calls use that do not say otherwise; it has the first position.
    pub(crate) fn resolve_default_models(&mut self) {
        self.model_list(None);
    }

    fn model_list(&mut self, recipe: Recipe) -> usize {
        let list = self.choosing(|choosing| choosing.list(&recipe));
        // What is wrong is told at every place; what is the same is one list.
        if let Some(at) = self.recipes.iter().position(|known| *known == recipe) {
            return at;
        }
        self.recipes.push(recipe);
        self.models.push(list);
        self.models.len() - 1
    }

    /// Does something with models, whose findings and uses are the agent's.
    pub(crate) fn choosing<T>(&mut self, work: impl FnOnce(&mut Choosing<'_>) -> T) -> T {
        let visible = &self.heads.visible;
        let mut choosing = Choosing {
            loaded: self.loaded,
            modules: &visible.modules,
            roles: &visible.roles,
            broken: &visible.broken,
            providers: self.providers,
            findings: Vec::new(),
            uses: std::mem::take(&mut self.uses),
        };
        let done = work(&mut choosing);
        let Choosing { findings, uses, .. } = choosing;
        self.uses = uses;
        findings.into_iter().for_each(|finding| self.report(finding));
        done
    }
}

impl<'a> Choosing<'a> {
    /// Checks every role, default and embedding model that the agent sees, used or not, and its planner's model.
    pub(crate) fn check(&mut self, own: &Module) {
        for role in self.roles.values() {
            self.look(self.modules.get(role.rank).copied(), |choosing| drop(choosing.models(role.decl, 1)));
        }
        for id in self.modules {
            let models = self.loaded.modules[id.0].decl.models.as_ref();
            if let Some(default) = models.and_then(|models| models.default.as_ref()) {
                self.look(Some(*id), |choosing| drop(choosing.models(default, 0)));
            }
            if let Some(embedding) = models.and_then(|models| models.embedding.as_ref()) {
                self.look(Some(*id), |choosing| choosing.check_provider(embedding));
            }
        }
        if let Some(llm) = own.planner.as_ref().and_then(|planner| planner.llm.as_ref()) {
            self.models(llm, 0);
        }
    }

    /// Looks at what a module has written. That the project file's own is sound is no use that the agent makes of it.
    fn look(&mut self, of: Option<ModuleId>, work: impl FnOnce(&mut Self)) {
        let uses = (of == self.loaded.project).then(|| self.uses.clone());
        work(self);
        if let Some(uses) = uses {
            self.uses = uses;
        }
    }

    fn list(&mut self, recipe: &Recipe) -> Vec<ModelChoice> {
        match recipe {
            Some(choice) => self.models(choice, 0),
            None => self.default_models(),
        }
    }

    /// The model of calls that do not say otherwise: the nearest `models.default`.
    fn default_models(&mut self) -> Vec<ModelChoice> {
        let written = |id: &ModuleId| Some((*id, self.loaded.modules[id.0].decl.models.as_ref()?.default.as_ref()?));
        let nearest = self.modules.iter().find_map(written);
        if nearest.is_none_or(|(id, _)| Some(id) == self.loaded.project) {
            self.uses.default_model = true;
        }
        let mut models = match nearest {
            Some((_, choice)) => self.models(choice, 0),
            None => vec![chosen(String::new())],
        };
        if let Some(first) = models.first_mut() {
            first.roles.insert(0, DEFAULT_ROLE.to_owned());
        }
        models
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
        let Some(role) = self.roles.get(name.value.as_str()).copied() else {
            if self.broken.contains(name.value.as_str()) {
                return Vec::new();
            }
            let candidates = self.roles.keys().copied();
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
            self.findings.push(diagnostic);
            return Vec::new();
        };
        if self.modules.get(role.rank).copied() == self.loaded.project {
            self.uses.roles.insert(name.value.clone());
        }
        if depth >= ROLE_DEPTH_MAX {
            self.findings.push(
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
            self.findings.extend(lay_over(record, &mut first.options));
            first.retries = record.retries.map(|retries| retries.min(u64::from(u32::MAX)) as u32).or(first.retries);
        }
        if !fallback.is_empty() {
            models.truncate(1);
            models.extend(fallback);
        }
        models
    }

    /// Reports a model whose provider is neither declared nor known.
    pub(crate) fn check_provider(&mut self, model: &Name) {
        let Some((provider, id)) = model.value.split_once('/') else {
            self.findings.push(
                Diagnostic::error("unknown-provider", model.span, format!("`{}` names no provider", model.value))
                    .help("write a model as `provider/id`, such as `openai/gpt-4.1-mini`"),
            );
            return;
        };
        self.uses.providers.insert(provider.to_owned());
        if id.is_empty() || self.providers.contains_key(provider) {
            return;
        }
        let candidates: Vec<&str> = self.providers.keys().map(String::as_str).collect();
        let at = crate::source::Span::new(model.span.file, model.span.start, model.span.end);
        let near = suggest::did_you_mean(provider, candidates.iter().copied());
        let help = near.unwrap_or_else(|| {
            format!("declare it in the project file: `providers: {{{provider}: {{kind: openai, base_url: …}}}}`")
        });
        self.findings
            .push(Diagnostic::error("unknown-provider", at, format!("there is no provider `{provider}`")).help(help));
    }
}

/// A model that no role names, asked in the usual way.
fn chosen(model: String) -> ModelChoice {
    ModelChoice { roles: Vec::new(), model, auto: None, options: Options::default(), retries: None }
}
