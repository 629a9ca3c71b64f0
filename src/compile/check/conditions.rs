//! Conditions: they may name one another, but not in a circle.

use indexmap::IndexSet;

use crate::diag::Diagnostic;
use crate::value::TypeId;

use super::super::agent::AgentCx;

/// Reports conditions that depend on themselves. `infos` holds, for each, the conditions that it names.
pub(crate) fn cycles(cx: &mut AgentCx<'_>, infos: &[(Vec<TypeId>, IndexSet<String>)]) {
    let names: Vec<&str> = cx.conditions.iter().map(|condition| condition.name.as_str()).collect();
    let mut found = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let mut reached: Vec<usize> = Vec::new();
        let mut open = vec![at];
        while let Some(current) = open.pop() {
            for other in infos[current].1.iter().filter_map(|other| names.iter().position(|name| name == other)) {
                if !reached.contains(&other) {
                    reached.push(other);
                    open.push(other);
                }
            }
        }
        if reached.contains(&at) {
            found.push((*name).to_owned());
        }
    }
    for name in found {
        let Some(decl) = cx.heads.visible.conditions.get(name.as_str()) else { continue };
        let span = decl.name.span;
        cx.report(
            Diagnostic::error("condition-cycle", span, format!("the condition `{name}` depends on itself"))
                .help("a condition may name others, as long as none of them leads back to it"),
        );
    }
}
