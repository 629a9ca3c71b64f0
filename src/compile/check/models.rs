//! Models: every role, default and catalog entry names something that exists, used or not.

use super::super::agent::AgentCx;

/// Checks the `models` of what an agent sees.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let own = cx.heads.own;
    cx.choosing(|choosing| choosing.check(own));
}
