//! What one prompt offers: names of different tools do not meet, whichever facades are open, and no name is too long
//! (language.md 8, 9; providers take names of 64 characters).

use indexmap::IndexMap;

use crate::decl::Name;
use crate::diag::Diagnostic;
use crate::program::Input;
use crate::source::Span;
use crate::tool::group::NAME_CHARS_MAX;
use crate::tool::offer::{Use, throws};
use crate::tool::unfold::NESTING_MAX;
use crate::tool::{OnCollision, Tool};
use crate::value::snake_case;

use super::super::agent::AgentCx;
use super::super::tools::Known;

/// What follows a facade's name in that of its guide.
const GUIDE: &str = "_guide";

/// Checks the elements of a list of tools, each with the name that it is written by.
pub(crate) fn check(cx: &mut AgentCx<'_>, elements: &[(Name, Use)], inputs: &[Input]) {
    let mut walk = Walk::default();
    for (place, of) in elements {
        for known in cx.known(of, 0) {
            walk.add(cx, &known, 0, 0, place);
        }
    }
    let mut found = walk.found;
    objects(cx, elements, inputs, &mut found);
    for finding in found {
        // `defaults` offer the same to many actions, and a list inside a facade was looked at where it is written.
        let is_known = |known: &Diagnostic| known.code == finding.code && known.message == finding.message;
        if !cx.strings.findings.iter().any(is_known) {
            cx.report(finding);
        }
    }
}

/// A tool that was met: which it is, what it does in a collision, where.
struct Met {
    which: (usize, String),
    on_collision: OnCollision,
    place: Span,
}

#[derive(Default)]
struct Walk {
    /// By where it is offered and by name. What an exclusive facade reveals stands apart from all others.
    met: IndexMap<(usize, String), Met>,
    /// How many exclusive facades there were.
    exclusive: usize,
    found: Vec<Diagnostic>,
}

impl Walk {
    fn add(&mut self, cx: &AgentCx<'_>, known: &Known, space: usize, depth: usize, place: &Name) {
        let Known { name, tool, derived } = known;
        let which = (
            std::sync::Arc::as_ptr(tool) as usize,
            format!("{:?}", derived.as_ref().map(|of| (of.description, of.note))),
        );
        if !self.meet(name, which, tool.on_collision, space, place) {
            return;
        }
        let Some(unfold) = tool.unfold.as_ref().filter(|_| depth < NESTING_MAX) else { return };
        let space = if unfold.exclusive {
            self.exclusive += 1;
            self.exclusive
        } else {
            space
        };
        if unfold.context_tool {
            self.guide(name, tool, space, place);
        }
        for of in unfold.tools.iter().chain(unfold.categories.values().flatten()).chain(&unfold.shared) {
            for inner in cx.known(of, 0) {
                self.add(cx, &inner, space, depth + 1, place);
            }
        }
    }

    /// Whether the tool is met for the first time.
    fn meet(
        &mut self,
        name: &str,
        which: (usize, String),
        on_collision: OnCollision,
        space: usize,
        place: &Name,
    ) -> bool {
        let key = (space, name.to_owned());
        match self.met.get(&key) {
            Some(met) if met.which == which => false,
            Some(met) if !throws(met.on_collision, on_collision) => false,
            Some(met) => {
                let message = format!("two different tools are named `{name}`");
                let finding = Diagnostic::error("tool-collision", place.span, message);
                let finding = match met.place == place.span {
                    true => finding,
                    false => finding.related(met.place, "the other comes from here"),
                };
                self.found.push(finding.help(
                    "derive one of them under another name (`{tool: …, name: …}`), or give one of them `on_collision: replace` \
                     or `keep`",
                ));
                false
            }
            None => {
                self.met.insert(key, Met { which, on_collision, place: place.span });
                true
            }
        }
    }

    /// The guide that stays when a facade opens is a tool too.
    fn guide(&mut self, facade: &str, tool: &Tool, space: usize, place: &Name) {
        let name = format!("{facade}{GUIDE}");
        if name.len() > NAME_CHARS_MAX {
            let message = format!(
                "the guide of the facade `{facade}` would be named `{name}`, which has {} characters; the most is {NAME_CHARS_MAX}",
                name.len()
            );
            self.found.push(Diagnostic::error("bad-name", place.span, message).help(format!(
                "take {} characters off the facade's name, or say `context_tool: false`",
                name.len() - NAME_CHARS_MAX
            )));
            return;
        }
        self.meet(&name, (std::ptr::from_ref(tool) as usize, GUIDE.to_owned()), OnCollision::Throw, space, place);
    }
}

/// Checks the names that tools of objects may be offered by: with the input's name before them where a list means several.
fn objects(cx: &AgentCx<'_>, elements: &[(Name, Use)], inputs: &[Input], found: &mut Vec<Diagnostic>) {
    let of_objects = || elements.iter().filter(|(_, of)| matches!(of, Use::Objects { .. }));
    let is_list = |name: &str| inputs.iter().any(|input| input.name == name && input.list);
    for (place, of) in of_objects() {
        let Use::Objects { input, type_id } = of else { continue };
        let prefix = match input {
            Some(input) if is_list(input) => format!("{input}_1_"),
            Some(input) if of_objects().count() > 1 => format!("{input}_"),
            Some(_) => continue,
            // Objects that tools return come one after the other.
            None => format!("{}_1_", snake_case(cx.types().name(*type_id))),
        };
        let longest = cx.object_tools(*type_id).max_by_key(|name| name.len());
        let Some(tool) = longest.filter(|tool| prefix.len() + tool.len() > NAME_CHARS_MAX) else { continue };
        let chars = prefix.len() + tool.len();
        let message = format!(
            "the tool `{tool}` would be offered as `{prefix}{tool}`, which has {chars} characters; the most is {NAME_CHARS_MAX}"
        );
        let what = if input.is_some() {
            "give the input or the tool a shorter name"
        } else {
            "give the type or the tool a shorter name"
        };
        found.push(Diagnostic::error("bad-name", place.span, message).help(what));
    }
}
