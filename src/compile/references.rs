//! References, compiled: those that some prompt names, each once for an agent (language.md 10).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use reqwest::Url;

use crate::action::context::{CallSettings, ModelChoice};
use crate::decl::module::Reference as Written;
use crate::decl::{List, Name};
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::program::WrittenReference;
use crate::reference::directory::Directory;
use crate::reference::document::Document;
use crate::reference::git::{Repository, bad_url};
use crate::reference::openapi::OpenApi;
use crate::reference::openapi::bundle::Bundle;
use crate::reference::openapi::document::{Api, tree};
use crate::reference::page::Page;
use crate::reference::remote::{Header, Remote};
use crate::reference::skill::material::Skills;
use crate::reference::{AUTO_TOKENS_MAX, LONG_TOKENS, Material, Mode, Reference, tokens};
use crate::source::Span;
use crate::tool::OnCollision;
use crate::tool::offer::Use;
use crate::world::normal;

use super::agent::AgentCx;
use super::check;
use super::env;
use super::load::{Loaded, slashed};
use super::providers::is_web_address;
use super::settings::Layers;

/// A reference that a file declares, whether or not a prompt names it.
#[derive(Clone, Debug)]
pub struct DeclaredReference {
    /// Its name.
    pub name: String,
    /// The file, relative to the root.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is written.
    pub decl: Written,
}

impl DeclaredReference {
    /// The key of its source, such as `file`.
    pub fn kind(&self) -> &'static str {
        check::references::source(&self.decl).unwrap_or_default()
    }

    /// Where it is, for a person: a path, a URL without secrets; empty for a text.
    pub fn place(&self) -> String {
        let of = &self.decl;
        let places = [&of.file, &of.web_page, &of.git, &of.directory, &of.openapi, &of.skills];
        let Some(place) = places.into_iter().flatten().next() else { return String::new() };
        match Url::parse(&place.value).ok().filter(|url| url.has_host()) {
            Some(url) => crate::action::shown_url(&url),
            None => place.value.clone(),
        }
    }
}

/// The references that the files which were read declare, in the order of reading.
pub(super) fn declared(loaded: &Loaded<'_>) -> Vec<DeclaredReference> {
    let each = loaded.modules.iter().flat_map(|module| {
        module.decl.references.iter().map(|(name, decl)| {
            let line = loaded.sources.get(name.span.file).line_column(name.span.start).0;
            DeclaredReference { name: name.value.clone(), file: module.path.clone(), line, decl: decl.clone() }
        })
    });
    each.collect()
}

/// The references of an agent while it is compiled.
#[derive(Debug, Default)]
pub(crate) struct Referencing {
    /// Those that were lowered, and those that could not be.
    pub(crate) table: IndexMap<String, Option<Arc<Reference>>>,
    /// What of them is compiled from files, for comparing programs.
    pub(crate) texts: IndexMap<String, Arc<str>>,
    /// Places of names that were reported.
    pub(crate) reported: Vec<Span>,
    /// Names of those that were reported to be long, and whether for a model.
    long: Vec<(String, bool)>,
}

impl Referencing {
    /// The table of the agent; positions are those of [`AgentCx::reference`].
    pub(crate) fn into_table(self) -> Vec<Option<Arc<Reference>>> {
        self.table.into_values().collect()
    }
}

impl AgentCx<'_> {
    /// The references of calls with these settings.
    pub(crate) fn references_of(&mut self, layers: &Layers<'_>) -> Vec<usize> {
        let named = layers.find(|settings| settings.references.as_ref());
        named.map(|list| self.references_named(list)).unwrap_or_default()
    }

    /// The references of a list, each once.
    pub(crate) fn references_named(&mut self, list: &List<Name>) -> Vec<usize> {
        let mut found = Vec::new();
        for name in list.iter() {
            if let Some(at) = self.reference(name).filter(|at| !found.contains(at)) {
                found.push(at);
            }
        }
        found
    }

    /// Reports references whose tools have the name of a tool that is offered beside them.
    pub(crate) fn reference_collisions(&mut self, layers: &Layers<'_>, settings: &CallSettings) {
        let Some(named) = layers.find(|settings| settings.references.as_ref()) else { return };
        let offer = settings.tools.and_then(|offer| self.tooling.offers.get(offer.0));
        let declared = offer.into_iter().flat_map(|offer| &offer.uses).filter_map(|of| match of {
            Use::Tool(name) => self.tools.get(name).filter(|tool| tool.on_collision == OnCollision::Throw),
            Use::Own(tool) => Some(tool),
            _ => None,
        });
        let taken: Vec<String> = declared.map(|tool| tool.name.clone()).collect();
        for name in named.iter() {
            let Some(Some(reference)) = self.referencing.table.get(&name.value) else { continue };
            let own = reference.uses.iter().filter_map(|of| match of {
                Use::Own(tool) => Some(&tool.name),
                _ => None,
            });
            let mut twice = own.filter(|own| taken.contains(own));
            if let (Some(tool), false) = (twice.next().cloned(), self.referencing.reported.contains(&name.span)) {
                self.referencing.reported.push(name.span);
                let message =
                    format!("the tool `{tool}` of the reference `{}` has the name of another tool", name.value);
                self.report(
                    Diagnostic::error("tool-collision", name.span, message)
                        .help("rename the reference or the tool; names of a reference's tools begin with its own"),
                );
            }
        }
    }

    /// Warns of what stands in prompts as a whole and is long for that, or for a model that gets it.
    pub(crate) fn long_references(&mut self, settings: &CallSettings) {
        let named = settings.references.iter().filter_map(|at| self.referencing.table.get_index(*at));
        let whole = named.filter(|(_, one)| one.as_ref().is_some_and(|one| one.mode == Mode::Prompt));
        for name in whole.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let Some(decl) = self.heads.visible.references.get(name.as_str()).map(|visible| visible.decl) else {
                continue;
            };
            let (source, bytes) = match (&decl.text, &decl.file) {
                (Some(text), _) => (text.0.span, text.0.value.len()),
                (None, Some(path)) => (path.span, self.referencing.texts.get(&name).map_or(0, |text| text.len())),
                (None, None) => continue,
            };
            let size = tokens(bytes);
            let reads = |choice: &ModelChoice| {
                let most = self.catalog.get(&choice.model)?.context_tokens?;
                (size as u64 > most).then(|| (choice.model.clone(), most))
            };
            let over = self.models.get(settings.models).into_iter().flatten().find_map(reads);
            let key = (name, over.is_some());
            if (over.is_none() && size <= LONG_TOKENS) || self.referencing.long.contains(&key) {
                continue;
            }
            let why = match over {
                Some((model, most)) => format!("more than the {most} that `{model}` reads at once"),
                None => "all of them in each request".to_owned(),
            };
            let message = format!("the reference `{}` puts about {size} tokens into its prompts, {why}", key.0);
            self.referencing.long.push(key);
            self.report(Diagnostic::warning("long-reference", source, message).help(format!(
                "leave out `mode: prompt`: tools look into what has more than {AUTO_TOKENS_MAX} tokens"
            )));
        }
    }

    /// The position of a reference by its name; lowered when it is first named.
    fn reference(&mut self, name: &Name) -> Option<usize> {
        if !check::references::name(self, name) {
            return None;
        }
        if let Some((at, _, lowered)) = self.referencing.table.get_full(&name.value) {
            return lowered.is_some().then_some(at);
        }
        let heads = self.heads;
        let decl = heads.visible.references.get(name.value.as_str())?;
        let lowered = self.lower_reference(decl.name, decl.decl, name.span).map(Arc::new);
        let is_there = lowered.is_some();
        let (at, _) = self.referencing.table.insert_full(name.value.clone(), lowered);
        is_there.then_some(at)
    }

    fn lower_reference(&mut self, name: &Name, written: &Written, named_at: Span) -> Option<Reference> {
        let scope = self.base_scope();
        let mode = match written.mode.unwrap_or(Mode::Auto) {
            // Names and descriptions of skills stand in the prompt however many there are: the tools want a name.
            Mode::Auto if written.skills.is_some() => Mode::Prompt,
            // What a repository has is not known when its tools are made.
            Mode::Tools if written.skills.as_ref().is_some_and(super::skills::is_repository) => Mode::Prompt,
            mode => mode,
        };
        let mut template = |text: &Option<crate::decl::Template>| match text {
            Some(text) => self.strings.template(&text.0, &scope, ("", "")).map(Some),
            None => Some(None),
        };
        let (description, notes, text) =
            (template(&written.description), template(&written.usage_notes), template(&written.text));
        let material: Arc<dyn Material> = if let Some(text) = text? {
            Arc::new(Document::written(text))
        } else if let Some(path) = &written.file {
            let (path, content) = self.reference_file(name, path)?;
            Arc::new(Document::file(&path, content))
        } else if let Some(path) = &written.directory {
            let inside = normal(Path::new(&path.value))?;
            let filter = check::references::filter(self, written)?;
            Arc::new(Directory::new(&name.value, &slashed(inside), filter))
        } else if let Some(url) = written.skills.as_ref().filter(|path| super::skills::is_repository(path)) {
            if bad_url(&url.value).is_some() {
                return None;
            }
            let of = written.r#ref.as_ref().map(|name| name.value.as_str());
            let filter = check::references::filter(self, written)?;
            let repository = Repository::new(&name.value, &url.value, of, filter.clone());
            Arc::new(Skills::of_repository(&name.value, repository, filter))
        } else if let Some(path) = &written.skills {
            Arc::new(Skills::new(&name.value, &path.value, self.skills(name, path)?, mode))
        } else if let Some(page) = &written.web_page {
            let url = Url::parse(&page.value).ok()?;
            Arc::new(Page::new(Remote::new(url, self.reference_headers(written)?, false)))
        } else if let Some(url) = &written.git {
            if bad_url(&url.value).is_some() {
                return None;
            }
            let filter = check::references::filter(self, written)?;
            let of = written.r#ref.as_ref().map(|name| name.value.as_str());
            Arc::new(Repository::new(&name.value, &url.value, of, filter))
        } else if let Some(document) = &written.openapi {
            Arc::new(self.openapi(name, written, document)?)
        } else {
            let kind = check::references::source(written).unwrap_or("rag");
            let what = format!("the source `{kind}` of the reference `{}`, which comes in a later version", name.value);
            self.unsupported(named_at, &what);
            return None;
        };
        let about = written.description.as_ref().map(|text| text.0.value.as_str());
        Some(Reference::new(&name.value, mode, (description?, about), notes?, written.unfold == Some(true), material))
    }

    fn openapi(&mut self, name: &Name, written: &Written, document: &Name) -> Option<OpenApi> {
        let headers = self.reference_headers(written)?;
        let base = match &written.base_url {
            Some(base) => Some(Url::parse(&base.value).ok()?),
            None => None,
        };
        if is_web_address(&document.value) {
            let url = Url::parse(&document.value).ok()?;
            return Some(OpenApi::remote(Remote::new(url, Arc::clone(&headers), true), base, headers));
        }
        let (path, text) = self.reference_file(name, document)?;
        match self.api(name, &path, &text) {
            Ok(api) => Some(OpenApi::file(&path, api, base, headers)),
            Err(why) => {
                self.report(
                    Diagnostic::error("bad-openapi", document.span, why)
                        .help("OpenAPI documents of 3.0 and 3.1 are read, in JSON or YAML"),
                );
                None
            }
        }
    }

    /// The operations of a document, with the files of the project that it refers to.
    fn api(&mut self, name: &Name, path: &str, text: &str) -> Result<Api, String> {
        let mut bundle = Bundle::new(path, tree(path, text)?);
        let mut all = text.to_owned();
        loop {
            let missing = bundle.missing(&beside)?;
            if missing.is_empty() {
                break;
            }
            for file in missing {
                let inside = PathBuf::from(&file);
                self.read.push(inside.clone());
                let read = self.loaded.world.read(&inside);
                let text = read.map_err(|why| format!("`{path}` leads to `{file}`, which cannot be read: {why}"))?;
                bundle.add(&file, tree(&file, &text)?);
                all.push_str(&text);
            }
        }
        self.referencing.texts.insert(name.value.clone(), Arc::from(all));
        Api::of(path, bundle.whole(&beside)?)
    }

    fn reference_headers(&mut self, written: &Written) -> Option<Arc<[Header]>> {
        let scope = self.base_scope();
        let mut headers = Vec::new();
        for (name, value) in written.headers.iter() {
            if reqwest::header::HeaderName::try_from(name.value.as_str()).is_err() {
                let message = format!("`{}` is not the name of a header", name.value);
                self.report(
                    Diagnostic::error("bad-header", name.span, message)
                        .help("a header's name has letters, digits and `-`"),
                );
                return None;
            }
            let mut secrets = Vec::new();
            for variable in env::references(&value.0.value) {
                let resolved = env::resolve(&variable, self.loaded.world);
                if let Some(missing) = resolved.missing.first() {
                    self.missing_env(missing, value.0.span);
                }
                secrets.push((variable, Secret::new(resolved.value)));
            }
            let template = self.strings.template(&value.0, &scope, ("", ""))?;
            headers.push(Header { name: name.value.clone(), value: template, secrets });
        }
        Some(headers.into())
    }

    /// What the references were compiled from, for comparing programs.
    pub(crate) fn references_written(&self) -> std::collections::BTreeMap<String, WrittenReference> {
        let visible = &self.heads.visible.references;
        let each = self.referencing.table.keys().filter_map(|name| {
            let decl = visible.get(name.as_str())?.decl.clone();
            Some((name.clone(), WrittenReference { decl, text: self.referencing.texts.get(name).cloned() }))
        });
        each.collect()
    }

    /// A file of the project that a reference is, with its text.
    pub(crate) fn reference_file(&mut self, name: &Name, path: &Name) -> Option<(String, Arc<str>)> {
        let inside = normal(Path::new(&path.value))?;
        self.read.push(inside.clone());
        match self.loaded.world.read(&inside) {
            Ok(text) => {
                self.referencing.texts.insert(name.value.clone(), Arc::clone(&text));
                Some((slashed(&inside), text))
            }
            Err(error) => {
                // That it is not there was reported with what is there.
                if self.loaded.world.exists(&inside) {
                    self.report(error.diagnostic(&path.value, path.span).help(help_of(&error)));
                }
                None
            }
        }
    }
}

/// The file that a document of the project means by a relative path.
fn beside(of: &str, written: &str) -> Result<String, String> {
    if written.contains("://") {
        return Err(
            "a file leads to files of the project alone; keep a copy of the other document beside it".to_owned()
        );
    }
    let dir = Path::new(of).parent().unwrap_or(Path::new(""));
    let inside = normal(&dir.join(written)).ok_or("it leads out of the project")?;
    match inside.iter().map(|part| part.to_string_lossy()).find(|part| part.starts_with('.')) {
        Some(hidden) => Err(format!("`{hidden}` is hidden: it begins with a dot")),
        None => Ok(slashed(inside)),
    }
}

fn help_of(error: &crate::world::ReadError) -> String {
    use crate::world::ReadError::{Escapes, Io, NotFound, NotUtf8, TooLarge};
    match error {
        NotUtf8 { .. } => "a reference is a text; save the file as UTF-8, or leave it out".to_owned(),
        TooLarge { .. } => "split the file, and name the directory of its parts as `directory`".to_owned(),
        Escapes => "paths stay within the project, symbolic links included".to_owned(),
        Io(_) | NotFound => "name a text file; for a directory write `directory: …`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::compile::{Entry, compile};
    use crate::program::Program;
    use crate::world::MemoryWorld;

    const WORKFLOW: &str = "agent: a\ninputs: UserInput\ntypes:\n  Stage: {abstract: true}\n  Answer: {text: string}\nactions:\n  \
        go: {inputs: UserInput, output: Answer, references: [handbook], prompt: Hello, achieves: Done}\n";

    fn program(files: &[(&str, &str)]) -> Arc<Program> {
        let world = MemoryWorld::with_files(files.iter().copied());
        let compiled = compile(&world, Entry::Agent("a".to_owned()));
        compiled.program.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))
    }

    #[test]
    fn an_edit_of_a_file_or_a_set_is_a_change_of_the_reference_by_its_name() {
        let set = "references:\n  handbook: {file: docs/handbook.md}\n  other: {file: docs/other.md}\n";
        let files = |set: &'static str, handbook: &'static str, other: &'static str| {
            program(&[
                ("workflows/a.yaml", WORKFLOW),
                ("references/set.yaml", set),
                ("docs/handbook.md", handbook),
                ("docs/other.md", other),
            ])
        };
        let before = files(set, "One", "x");
        let changes = |after: &Program| -> Vec<String> {
            assert_eq!(before.same_as(after), Program::diff(Some(&before), after).is_empty());
            Program::diff(Some(&before), after).iter().map(ToString::to_string).collect()
        };
        assert_eq!(changes(&files(set, "Two", "x")), ["changed reference handbook"]);
        // Nobody names the other one, and comments are none of the meaning.
        let commented =
            "references:\n  # The handbook\n  handbook: {file: docs/handbook.md}\n  other: {file: docs/other.md}\n";
        assert_eq!(changes(&files(commented, "One", "y")), Vec::<String>::new());
        let described = "references:\n  handbook: {file: docs/handbook.md, mode: tools}\n";
        assert_eq!(changes(&files(described, "One", "x")), ["changed reference handbook"]);
    }

    #[test]
    fn sets_are_read_for_actions_of_states_and_bodies_in_bodies_too() {
        let nested = "agent: a\ninputs: UserInput\ntypes: {Answer: {text: string}}\nactions:\n  go:\n    inputs: UserInput\n    \
            output: Answer\n    achieves: Done\n    repeat_until:\n      do: {prompt: Hello, references: handbook}\n      until: \"true\"\n      max: 2\n";
        let program =
            program(&[("workflows/a.yaml", nested), ("references/set.yaml", "references: {handbook: {text: x}}\n")]);
        let names: Vec<_> = program.agents[0].references.iter().flatten().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["handbook"]);
    }
}
