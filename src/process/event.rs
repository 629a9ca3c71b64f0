//! What happens in a process, as one closed list: the contract with journals, terminals and other programs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::Typed;

/// The version of the JSON form; it grows when a reader of the older form could be misled.
pub const EVENT_VERSION: u32 = 1;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Event {
    /// [`EVENT_VERSION`].
    pub v: u32,
    /// Its number among the events of its process, from 1.
    pub seq: u64,
    /// When, RFC 3339.
    pub at: String,
    /// The process's id.
    pub process: String,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// An object that a changed type no longer allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NoLongerFits {
    /// Its position.
    pub object: usize,
    /// The name of its type.
    pub r#type: String,
    /// What is wrong with it now.
    pub why: String,
}

/// What may happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The process exists.
    ProcessCreated {
        /// The agent.
        agent: String,
        /// The process it belongs to.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        parent: Option<String>,
    },
    /// There is a plan, the first or one that differs from the rest of the one before.
    Planned {
        /// The goal.
        goal: String,
        /// The actions to run, in order.
        steps: Vec<String>,
        /// Sum of their costs.
        cost: f64,
        /// Whether another plan was in force before.
        replanned: bool,
    },
    /// An action begins.
    ActionStarted {
        /// The action.
        action: String,
        /// Names and types of the objects it takes.
        inputs: Vec<(String, String)>,
    },
    /// A model is asked.
    LlmRequest {
        /// The action or condition.
        action: String,
        /// `provider/id`.
        model: String,
        /// The call's number within the action, from 1.
        call: u32,
        /// The system message.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        system: Option<String>,
        /// The messages.
        messages: Vec<Value>,
        /// Names of the tools that it is offered.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        tools: Vec<String>,
    },
    /// A piece of a reply.
    LlmDelta {
        /// The action or condition.
        action: String,
        /// The piece; empty when the call is made again and what came so far is void.
        text: String,
        /// Whether it is thinking.
        thinking: bool,
    },
    /// A model begins a call of a tool, or says more of its arguments; the call itself is `tool_called`.
    LlmToolDelta {
        /// The action or condition.
        action: String,
        /// Which call of this reply, from 0.
        call: usize,
        /// The tool; only in the first piece of a call.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        tool: String,
        /// A piece of the arguments, as JSON text.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        arguments: String,
    },
    /// An element of a list that a model is answering is complete, and fits its type.
    LlmElement {
        /// The action or condition.
        action: String,
        /// Its number among the elements of this reply, from 0.
        index: usize,
        /// Its value.
        value: Value,
    },
    /// A model has answered.
    LlmReply {
        /// The action or condition.
        action: String,
        /// `provider/id`.
        model: String,
        /// The text.
        text: String,
        /// Tokens sent.
        input_tokens: u64,
        /// Tokens received.
        output_tokens: u64,
        /// US dollars.
        cost_usd: f64,
        /// Whether it was kept from an earlier request (`cache: true`): nothing was sent, and nothing is paid.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        from_cache: bool,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// A tool is called.
    ToolCalled {
        /// The action.
        action: String,
        /// The tool.
        tool: String,
        /// The arguments.
        arguments: Value,
    },
    /// A server says how far a call of one of its tools has come.
    ToolProgress {
        /// The action.
        action: String,
        /// The tool, as the server calls it.
        tool: String,
        /// So far.
        progress: f64,
        /// Of how much.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        total: Option<f64>,
        /// What is being done.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        message: Option<String>,
    },
    /// A tool has answered.
    ToolResult {
        /// The action.
        action: String,
        /// The tool.
        tool: String,
        /// Whether it did what it should.
        ok: bool,
        /// The result, or what went wrong.
        result: Value,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// An object is on the blackboard.
    ObjectAdded {
        /// Its position.
        object: usize,
        /// Its type.
        r#type: String,
        /// The name it is bound under.
        name: Option<String>,
        /// Its value.
        value: Value,
    },
    /// An object is no longer visible.
    ObjectHidden {
        /// Its position.
        object: usize,
    },
    /// The process has entered a state; what was on the blackboard before has left it.
    StateEntered {
        /// Its type.
        state: String,
        /// The position of its object.
        object: usize,
    },
    /// Something failed and is tried again.
    Retrying {
        /// The action or condition.
        action: String,
        /// What failed: `action`, `llm` or `reply`.
        what: String,
        /// Why.
        message: String,
        /// The pause before the next try, in milliseconds.
        wait_ms: u64,
    },
    /// A part or an attempt inside an action has ended.
    PartFinished {
        /// The action.
        action: String,
        /// Which, such as `part 3` or `attempt 2`.
        part: String,
        /// How many have ended, this one too.
        done: usize,
        /// How many there are at most.
        total: usize,
        /// Whether it did what it should.
        ok: bool,
        /// Why it failed, or how it was judged.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        message: Option<String>,
    },
    /// A condition was asked of a model.
    ConditionAnswered {
        /// The condition.
        condition: String,
        /// `true`, `false`, or null for unknown.
        holds: Option<bool>,
        /// How sure the model is, 0 to 1.
        confidence: f64,
        /// Why.
        why: String,
    },
    /// A message of the person has come, and work on it begins.
    MessageReceived {
        /// Its number in the chat, from 1.
        number: u32,
        /// The text.
        content: String,
    },
    /// A message went out to the person.
    MessageSent {
        /// The text.
        content: String,
    },
    /// Work on a message has ended without an answer.
    NotAnswered {
        /// Why.
        message: String,
    },
    /// An action has ended.
    ActionFinished {
        /// The action.
        action: String,
        /// A status of the history.
        status: String,
        /// Tries.
        attempts: u32,
        /// How long it took, in milliseconds.
        ms: u64,
        /// What went wrong.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        message: Option<String>,
    },
    /// A person has to answer before the process can go on.
    Waiting {
        /// The action that asks.
        action: String,
        /// What the person is asked.
        prompt: String,
        /// The JSON Schema of the answer.
        form: Value,
    },
    /// A wait is over.
    Resumed {
        /// The action that asked.
        action: String,
        /// The answer; none when no one answered in time.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        answer: Option<Value>,
    },
    /// Something that the person should know, told once in a run.
    Notice {
        /// What it is about, such as `unconfined`.
        key: String,
        /// What it is.
        message: String,
    },
    /// The process has taken the newer program: it plans with it from here on.
    ProgramReloaded {
        /// What differs for it, by name: `changed prompt of find_news`.
        changes: Vec<String>,
        /// Objects that no longer fit their types; an `object_hidden` follows for each.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        hidden: Vec<NoLongerFits>,
    },
    /// Files have changed, and the process goes on with the program that it has.
    ReloadRefused {
        /// Why: what is wrong in the files, or why the process cannot take the program that they give.
        reasons: Vec<String>,
    },
    /// The process has ended.
    Finished {
        /// Its status.
        status: String,
        /// The goal that was reached.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        goal: Option<String>,
        /// The result.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        output: Option<Typed>,
        /// The action that failed.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        action: Option<String>,
        /// A kind of failure of cli.md 2.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        kind: Option<String>,
        /// What went wrong.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        message: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_one_flat_versioned_object_and_reads_back() {
        let what = What::Planned { goal: "g".into(), steps: vec!["a".into()], cost: 0.5, replanned: false };
        let event = Event { v: EVENT_VERSION, seq: 2, at: "2025-01-01T00:00:00Z".into(), process: "P1".into(), what };
        let json = serde_json::to_value(&event).unwrap();
        let expected = json!({"v": 1, "seq": 2, "at": "2025-01-01T00:00:00Z", "process": "P1",
            "event": "planned", "goal": "g", "steps": ["a"], "cost": 0.5, "replanned": false});
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }

    /// `schemas/events.json` is made from the types above; `UPDATE=1` writes it.
    #[test]
    fn the_published_schema_is_up_to_date_and_every_event_is_in_the_docs() {
        let mut schema = serde_json::to_value(schemars::schema_for!(Event)).unwrap();
        schema["title"] = json!(format!("An event of agent-run, version {EVENT_VERSION}: a line of `run --events`"));
        schema["properties"]["v"] = json!({"const": EVENT_VERSION, "description": "The version of this form."});
        schema["properties"]["at"]["format"] = json!("date-time");
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = root.join("schemas/events.json");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        assert!(
            text == std::fs::read_to_string(&file).unwrap_or_default(),
            "`UPDATE=1 cargo test event` writes it anew"
        );
        let docs = std::fs::read_to_string(root.join("docs/events.md")).unwrap();
        let names: Vec<&str> = schema["oneOf"]
            .as_array()
            .expect("one schema for each event")
            .iter()
            .filter_map(|one| one["properties"]["event"]["const"].as_str())
            .collect();
        assert!(names.len() > 25, "{names:?}");
        for name in names {
            assert!(docs.contains(&format!("`{name}`")), "docs/events.md does not tell of `{name}`");
        }
    }
}
