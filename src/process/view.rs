//! A process as its own tools may see it (`builtin:blackboard`, `builtin:process`): read-only documents.

use serde_json::{Map, Value, json};

use crate::action::context::Seen;

use super::core::Core;
use super::ledger::Ledger;
use super::scope::Scope;

/// The visible objects, oldest first.
pub(super) fn objects(scope: &Scope) -> Vec<Seen> {
    let seen = scope.board.visible().map(|(_, object)| Seen {
        type_id: object.type_id,
        name: object.name.clone(),
        value: object.value.clone(),
    });
    seen.collect()
}

/// What the process is, what it has used, and what is left of each limit, its parents' limits included; what is not
/// limited is left out.
pub(super) fn status(core: &Core, action: &str) -> Value {
    let used = core.ledger.used();
    json!({
        "process": core.id,
        "parent": core.parent,
        "agent": core.agent.name,
        "description": core.agent.description,
        "action": action,
        "used": {
            "actions": used.actions,
            "replans": used.replans,
            "llm_calls": used.llm_calls,
            "tool_calls": used.tool_calls,
            "tokens": used.input_tokens + used.output_tokens,
            "cost_usd": used.cost_usd,
            "seconds": core.ledger.elapsed().as_secs(),
        },
        "left": left(&core.ledger),
    })
}

/// What is left: the least of what each account in the chain has.
fn left(ledger: &Ledger) -> Value {
    let mut least: Map<String, Value> = Map::new();
    let mut note = |name: &str, amount: f64, shown: Value| {
        if least.get(name).and_then(Value::as_f64).is_none_or(|before| amount < before) {
            least.insert(name.to_owned(), shown);
        }
    };
    let mut next = Some(ledger);
    while let Some(ledger) = next {
        let (used, limits) = (ledger.used(), ledger.limits());
        let mut count = |name: &str, most: u64, used: u64| {
            let left = most.saturating_sub(used);
            note(name, left as f64, Value::from(left));
        };
        count("actions", limits.actions, used.actions + used.replans);
        count("tokens", limits.tokens, used.input_tokens + used.output_tokens);
        if let Some(calls) = limits.llm_calls {
            count("llm_calls", calls, used.llm_calls);
        }
        if let Some(time) = limits.time {
            count("seconds", time.as_secs(), ledger.elapsed().as_secs());
        }
        let cost = (limits.cost - used.cost_usd).max(0.0);
        note("cost_usd", cost, json!(cost));
        next = ledger.parent();
    }
    Value::Object(least)
}

/// What was done before, the first action first.
pub(super) fn history(scope: &Scope) -> Value {
    let entries = scope.history.iter().map(|entry| {
        let tools: Vec<&str> = entry.tools.iter().map(|tool| tool.name.as_str()).collect();
        json!({
            "action": entry.action,
            "status": entry.status.word(),
            "attempts": entry.attempts,
            "started_at": entry.started_at,
            "llm_calls": entry.llm.len(),
            "tools": tools,
        })
    });
    Value::Array(entries.collect())
}
