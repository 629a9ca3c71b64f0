//! `builtin:process`: what the process did, and what it may still use.

use futures::FutureExt;

use crate::tool::Tool;

use super::{Native, tool};

pub(super) fn tools() -> Vec<Tool> {
    let body = |run| Native { kind: "process", permissions: &[], run };
    let own = |tool: Tool| Tool { trusted: true, ..tool };
    vec![
        own(tool(
            "process_status",
            "Tells which process, agent and action this is, what was used so far (actions, calls to models and tools, \
             tokens, cost in US dollars, seconds), and what is left of each limit.",
            Vec::new(),
            body(|cx| async move { Ok(cx.process_status()) }.boxed()),
        )),
        own(tool(
            "process_history",
            "Lists what this process has done so far, the first action first: the action, how it ended, how often it \
             was tried, when it began, and which tools were called.",
            Vec::new(),
            body(|cx| async move { Ok(cx.process_history()) }.boxed()),
        )),
    ]
}
