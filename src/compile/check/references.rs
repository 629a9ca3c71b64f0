//! References: each has one source, and those that are named exist.

use std::path::{Path, PathBuf};

use crate::decl::module::Reference;
use crate::decl::{List, Name};
use crate::diag::Diagnostic;
use crate::reference::directory::Filter;
use crate::reference::git;
use crate::source::Span;

use super::super::agent::AgentCx;

/// Checks the references that an agent sees.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let heads = cx.heads;
    for decl in heads.visible.references.values() {
        let sources = sources(decl.decl);
        match sources.as_slice() {
            [] => cx.report(
                Diagnostic::error(
                    "missing-key",
                    decl.name.span,
                    format!("the reference `{}` has no source", decl.name.value),
                )
                .help("give it one of `text`, `file`, `web_page`, `git`, `directory`, `openapi`, `skills` and `rag`"),
            ),
            [(source, _)] => keys(cx, decl.decl, source),
            [(first, at), (second, span), ..] => cx.report(
                Diagnostic::error(
                    "two-forms",
                    *span,
                    format!("a reference has one source, not `{first}` and `{second}`"),
                )
                .related(*at, "the first is here"),
            ),
        }
        places(cx, decl.decl);
        // Those that some prompt names are checked with what they see when they are lowered.
        for text in [&decl.decl.description, &decl.decl.usage_notes, &decl.decl.text].into_iter().flatten() {
            cx.strings.syntax_only(&text.0, false);
        }
    }
    let defaults = heads.own.defaults.as_ref().and_then(|defaults| defaults.references.as_ref());
    for reference in defaults.into_iter().flat_map(|list| list.iter()) {
        name(cx, reference);
    }
}

/// Keys that say nothing about a source of this kind.
fn keys(cx: &mut AgentCx<'_>, reference: &Reference, source: &str) {
    let first = |list: &Option<List<Name>>| list.iter().flat_map(|list| list.iter()).next().map(|name| name.span);
    let is_fetched = reference.skills.as_ref().is_some_and(super::super::skills::is_repository);
    let files: &[&str] = if is_fetched { &["directory", "git", "skills"] } else { &["directory", "git"] };
    let of_commits: &[&str] = if is_fetched { &["git", "skills"] } else { &["git"] };
    let first_header = reference.headers.entries.first().map(|(name, _)| name.span);
    let keys: [(&str, Option<Span>, &[&str]); 5] = [
        ("base_url", reference.base_url.as_ref().map(|url| url.span), &["openapi"]),
        ("headers", first_header, &["openapi", "web_page"]),
        ("ref", reference.r#ref.as_ref().map(|name| name.span), of_commits),
        ("include", first(&reference.include), files),
        ("exclude", first(&reference.exclude), files),
    ];
    if let (Some(crate::decl::module::ReferenceMode::Prompt), Some(true)) = (reference.mode, reference.unfold)
        && matches!(source, "text" | "file" | "web_page" | "directory" | "git")
        && let Some((_, span)) = sources(reference).first()
    {
        let message = "with `mode: prompt` there are no tools that `unfold` could reveal";
        cx.report(Diagnostic::error("contradiction", *span, message).help("remove one of them"));
    }
    for (key, span, sources) in keys {
        if let Some(span) = span.filter(|_| !sources.contains(&source)) {
            let message = format!("`{key}` says nothing about `{source}`; it is for `{}`", sources.join("` and `"));
            cx.report(Diagnostic::error("contradiction", span, message).help(format!("remove `{key}`")));
        }
    }
    let includes = reference.include.iter().flat_map(|list| list.iter());
    let first_pattern = includes.chain(reference.exclude.iter().flat_map(|list| list.iter())).next();
    if first_pattern.is_some()
        && let Err(wrong) = read_filter(reference)
    {
        cx.report(*wrong);
    }
}

/// Addresses that are none, and files that are not there.
fn places(cx: &mut AgentCx<'_>, reference: &Reference) {
    let is_web_address = |text: &str| {
        super::super::providers::is_web_address(text)
            && reqwest::Url::parse(text).is_ok_and(|url| url.host_str().is_some())
    };
    let addresses = [reference.web_page.as_ref(), reference.base_url.as_ref()];
    for address in addresses.into_iter().flatten().filter(|address| !is_web_address(&address.value)) {
        cx.report(super::super::providers::bad_url(address.span));
    }
    let skills = reference.skills.as_ref().filter(|path| super::super::skills::is_repository(path));
    let repository = reference.git.as_ref().or(skills);
    if let Some((url, why)) = repository.and_then(|url| Some((url, git::bad_url(&url.value)?))) {
        cx.report(Diagnostic::error("bad-url", url.span, why).help(
            "repositories are fetched by `https://`, `ssh://` or `file:///`, such as `https://github.com/org/repo`; by `http://` from this machine alone",
        ));
    }
    if let Some((of, why)) = reference.r#ref.as_ref().and_then(|of| Some((of, git::bad_ref(&of.value)?))) {
        cx.report(Diagnostic::error("bad-name", of.span, why).help("such as `main`, `v1.2` or a whole commit id"));
    }
    let openapi = reference.openapi.as_ref().filter(|path| !is_web_address(&path.value));
    // Directories of skills are looked at where skills are found.
    let paths = [reference.file.as_ref(), openapi, reference.directory.as_ref()];
    for path in paths.into_iter().flatten() {
        exists(cx, path);
    }
}

/// Checks a reference that is named: whether it is declared, and can be offered.
pub(crate) fn name(cx: &mut AgentCx<'_>, name: &Name) -> bool {
    if cx.heads.visible.references.contains_key(name.value.as_str()) {
        return true;
    }
    if !cx.referencing.reported.contains(&name.span) {
        cx.referencing.reported.push(name.span);
        let names: Vec<&str> = cx.heads.visible.references.keys().copied().collect();
        cx.report_unknown("unknown-reference", "reference", name, &names);
    }
    false
}

/// The files that a reference takes; wrong patterns are reported where the reference is declared.
pub(crate) fn filter(cx: &mut AgentCx<'_>, reference: &Reference) -> Option<Filter> {
    read_filter(reference).map_err(|wrong| cx.report(*wrong)).ok()
}

fn read_filter(reference: &Reference) -> Result<Filter, Box<Diagnostic>> {
    let list =
        |list: &'_ Option<List<Name>>| -> Vec<Name> { list.iter().flat_map(|list| list.iter().cloned()).collect() };
    let (include, exclude) = (list(&reference.include), list(&reference.exclude));
    let texts = |names: &[Name]| -> Vec<String> { names.iter().map(|name| name.value.clone()).collect() };
    let (included, excluded) = (texts(&include), texts(&exclude));
    let (included, excluded): (Vec<&str>, Vec<&str>) =
        (included.iter().map(String::as_str).collect(), excluded.iter().map(String::as_str).collect());
    Filter::new(&included, &excluded).map_err(|(at, why)| {
        let span = include.iter().chain(&exclude).nth(at).map_or(Span::default(), |name| name.span);
        let wrong = Diagnostic::error("bad-glob", span, why);
        Box::new(wrong.help("`*` fits within a name, `**` over directories, `{a,b}` either"))
    })
}

/// The key of its source.
pub(crate) fn source(reference: &Reference) -> Option<&'static str> {
    sources(reference).first().map(|(key, _)| *key)
}

fn sources(reference: &Reference) -> Vec<(&'static str, Span)> {
    let names = [
        ("file", &reference.file),
        ("web_page", &reference.web_page),
        ("git", &reference.git),
        ("directory", &reference.directory),
        ("openapi", &reference.openapi),
        ("skills", &reference.skills),
    ];
    let text = reference.text.as_ref().map(|text| ("text", text.0.span));
    let named = names.into_iter().filter_map(|(key, name)| Some((key, name.as_ref()?.span)));
    let rag = reference.rag.as_ref().map(|rag| ("rag", rag.0.span));
    text.into_iter().chain(named).chain(rag).collect()
}

/// Reports a path that leads out of the project, or to nothing.
fn exists(cx: &mut AgentCx<'_>, path: &Name) {
    let Some(normal) = crate::world::normal(Path::new(&path.value)) else {
        let message = format!("`{}` leads out of the project", path.value);
        cx.report(
            Diagnostic::error("path-escapes", path.span, message)
                .help("references are files below the project's root, by their path from there"),
        );
        return;
    };
    if let Some(hidden) = normal.iter().map(|part| part.to_string_lossy()).find(|part| part.starts_with('.')) {
        let message = format!("`{}` is hidden: `{hidden}` begins with a dot", path.value);
        cx.report(Diagnostic::error("unreadable-file", path.span, message).help("name what is not hidden"));
        return;
    }
    cx.read.push(normal.clone());
    if !cx.loaded.world.exists(&normal) {
        let dir = normal.parent().unwrap_or(Path::new("")).to_owned();
        let near = near(&cx.loaded.world.list(&dir));
        let help = crate::diag::suggest::did_you_mean(&path.value, near.iter().map(String::as_str));
        let message = format!("there is no file or directory `{}`", path.value);
        cx.report(Diagnostic::error("file-not-found", path.span, message).help(help));
    }
}

/// Files, and the directories that they are in.
fn near(files: &[PathBuf]) -> Vec<String> {
    let mut near: Vec<String> = files.iter().map(super::super::load::slashed).collect();
    for dir in files.iter().filter_map(|file| file.parent()).map(super::super::load::slashed) {
        if !dir.is_empty() && !near.contains(&dir) {
            near.push(dir);
        }
    }
    near
}
