//! References: each has one source, and those that are named exist.

use crate::decl::Name;
use crate::decl::module::Reference;
use crate::diag::Diagnostic;
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
            [_] => {}
            [(first, at), (second, span), ..] => cx.report(
                Diagnostic::error(
                    "two-forms",
                    *span,
                    format!("a reference has one source, not `{first}` and `{second}`"),
                )
                .related(*at, "the first is here"),
            ),
        }
        if let Some(page) =
            decl.decl.web_page.as_ref().filter(|page| !super::super::providers::is_web_address(&page.value))
        {
            cx.report(super::super::providers::bad_url(page.span));
        }
        let file = [&decl.decl.file, &decl.decl.openapi].into_iter().find_map(|path| path.as_ref());
        if let Some(path) = file {
            exists(cx, path);
        }
        for path in [&decl.decl.directory, &decl.decl.skills].into_iter().flatten() {
            exists(cx, path);
        }
    }
    let defaults = heads.own.defaults.as_ref().and_then(|defaults| defaults.references.as_ref());
    for reference in defaults.into_iter().flat_map(|list| list.iter()) {
        name(cx, reference);
    }
}

/// Checks a reference that is named, and notes that it is not offered yet.
pub(crate) fn name(cx: &mut AgentCx<'_>, name: &Name) {
    if cx.heads.visible.references.contains_key(name.value.as_str()) {
        cx.unsupported(name.span, &format!("the reference `{}`", name.value));
        return;
    }
    let names: Vec<&str> = cx.heads.visible.references.keys().copied().collect();
    cx.report_unknown("unknown-reference", "reference", name, &names);
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

fn exists(cx: &mut AgentCx<'_>, path: &Name) {
    let Some(normal) = crate::world::normal(std::path::Path::new(&path.value)) else {
        cx.report(Diagnostic::error("path-escapes", path.span, format!("`{}` leads out of the project", path.value)));
        return;
    };
    cx.read.push(normal.clone());
    if !path.value.starts_with("http") && !cx.loaded.world.exists(&normal) {
        let dir = normal.parent().unwrap_or(std::path::Path::new("")).to_owned();
        let near: Vec<String> = cx.loaded.world.list(&dir).iter().map(super::super::load::slashed).collect();
        let help = crate::diag::suggest::did_you_mean(&path.value, near.iter().map(String::as_str));
        let message = format!("there is no file or directory `{}`", path.value);
        cx.report(Diagnostic::error("file-not-found", path.span, message).help(help));
    }
}
