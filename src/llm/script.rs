//! Scripts: the model's part written down in advance (cli.md 6). A recording is a script with hashes.

use std::time::Duration;

use serde_json::{Map, Value};

use super::reply::Usage;

/// A script file, checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// The rules, in order.
    pub rules: Vec<Rule>,
}

/// One rule: when it answers, and what.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rule {
    /// What must hold.
    pub when: When,
    /// How often the rule answers (each pass through `turns` counts once); `None`: `turns` once, a single reply always.
    pub times: Option<u64>,
    /// What it answers, in order; at least one.
    pub steps: Vec<Step>,
    /// Whether the steps were written under `turns`.
    pub turns: bool,
    /// In a recording: the request's digest, which must be equal.
    pub hash: Option<String>,
    /// In a recording: the request as text, so that the nearest one can be shown where none matches.
    pub request: Option<String>,
}

/// The conditions of a rule; all that are given must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct When {
    /// The action's or condition's name; for an action of a state also its last part.
    pub action: Option<String>,
    /// The model, as `provider/id` or `id`.
    pub model: Option<String>,
    /// A text that the system message or a message contains.
    pub contains: Option<String>,
    /// A text that a tool result of the last turn contains, or the name of the tool that gave it.
    pub tool_result: Option<String>,
    /// The turn of the interaction, from 1.
    pub turn: Option<u64>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What is answered.
    pub outcome: Outcome,
    /// Tokens; made up from the texts' lengths when `None`.
    pub usage: Option<Usage>,
    /// How long it takes.
    pub delay: Option<Duration>,
    /// Thoughts before the answer.
    pub thinking: Option<String>,
    /// Whether the answer ends as one cut off by the limit on tokens.
    pub truncate: bool,
}

/// What a step answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Data, sent as JSON in the wire's envelope; a string, sent as text.
    Reply(Value),
    /// Text sent as it is.
    Raw(String),
    /// Tool calls: names and arguments.
    Call(Vec<(String, Value)>),
    /// The provider fails.
    Error {
        /// The HTTP status; `None`: the connection breaks.
        status: Option<u16>,
        /// Seconds asked for in `Retry-After`.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: Option<String>,
    },
    /// The model declines in these words.
    Refuse(String),
}

/// A mistake in a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct ScriptError {
    /// Where, as a JSON pointer (`/replies/0/when`), so that a caller with spans can show the place.
    pub pointer: String,
    /// What is wrong and what was expected.
    pub message: String,
}

const OUTCOMES: &[&str] = &["reply", "call", "error", "refuse", "raw"];
const STEP_KEYS: &[&str] = &["reply", "call", "error", "refuse", "raw", "usage", "delay", "thinking", "truncate"];
const RULE_KEYS: &[&str] = &[
    "when", "turns", "times", "hash", "request", "reply", "call", "error", "refuse", "raw", "usage", "delay",
    "thinking", "truncate",
];
const WHEN_KEYS: &[&str] = &["action", "model", "contains", "tool_result", "turn"];

impl Script {
    /// Reads a script file (`{replies: [rule, …]}`); all independent mistakes are reported.
    pub fn from_value(value: &Value) -> Result<Script, Vec<ScriptError>> {
        let mut reader = Reader::default();
        let rules = match value {
            Value::Object(file) => {
                reader.known_keys(file, &["replies"], "");
                match file.get("replies") {
                    Some(Value::Array(rules)) => reader.each(rules, "/replies", Reader::rule),
                    Some(_) => reader.fail("/replies", "expected a list of rules"),
                    None => reader.fail("", "a script has the key `replies`, a list of rules"),
                }
            }
            _ => reader.fail("", "expected a mapping with the key `replies`, a list of rules"),
        };
        reader.finish(Script { rules: rules.unwrap_or_default() })
    }

    /// Reads the `replies` of a test case (cli.md 5): a mapping from an action's name to a step, to `{turns: […]}`, or to
    /// bare data, which is one reply.
    pub fn from_replies_by_action(value: &Value) -> Result<Script, Vec<ScriptError>> {
        let mut reader = Reader::default();
        let Value::Object(actions) = value else {
            reader.fail::<()>("", "expected a mapping from action names to replies");
            return Err(reader.errors);
        };
        let mut rules = Vec::new();
        for (action, reply) in actions {
            let pointer = format!("/{}", escape(action));
            let rule = match reply {
                Value::Object(keys) if is_step(keys) => reader.rule(reply, &pointer),
                data => Some(Rule { steps: vec![Step::of(Outcome::Reply(data.clone()))], ..Rule::default() }),
            };
            if let Some(mut rule) = rule {
                if rule.when.action.is_some() {
                    reader.fail::<()>(&format!("{pointer}/when/action"), "the action is named by the key already");
                }
                rule.when.action = Some(action.clone());
                rules.push(rule);
            }
        }
        reader.finish(Script { rules })
    }
}

/// Whether a mapping is a step or rule, not data: it has `turns` or one outcome, and nothing that a rule lacks.
fn is_step(keys: &Map<String, Value>) -> bool {
    let answers = keys.contains_key("turns") || OUTCOMES.iter().any(|outcome| keys.contains_key(*outcome));
    answers && keys.keys().all(|key| RULE_KEYS.contains(&key.as_str()))
}

impl Step {
    /// A step that only answers `outcome`.
    pub fn of(outcome: Outcome) -> Step {
        Step { outcome, usage: None, delay: None, thinking: None, truncate: false }
    }
}

/// Collects mistakes while it reads.
#[derive(Default)]
struct Reader {
    errors: Vec<ScriptError>,
}

impl Reader {
    fn finish(self, script: Script) -> Result<Script, Vec<ScriptError>> {
        if self.errors.is_empty() { Ok(script) } else { Err(self.errors) }
    }

    fn fail<T>(&mut self, pointer: &str, message: impl Into<String>) -> Option<T> {
        self.errors.push(ScriptError { pointer: pointer.to_string(), message: message.into() });
        None
    }

    fn known_keys(&mut self, object: &Map<String, Value>, known: &[&str], pointer: &str) {
        for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
            let near = known.iter().max_by(|a, b| strsim::jaro(a, key).total_cmp(&strsim::jaro(b, key)));
            let hint = match near {
                Some(near) if strsim::jaro(near, key) > 0.7 => format!("did you mean `{near}`?"),
                _ => format!("known: {}", quoted(known)),
            };
            self.fail::<()>(&format!("{pointer}/{}", escape(key)), format!("unknown key `{key}`; {hint}"));
        }
    }

    fn each<T>(
        &mut self,
        list: &[Value],
        pointer: &str,
        read: fn(&mut Reader, &Value, &str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let read = |(index, value)| read(self, value, &format!("{pointer}/{index}"));
        Some(list.iter().enumerate().filter_map(read).collect())
    }

    fn rule(&mut self, value: &Value, pointer: &str) -> Option<Rule> {
        let Value::Object(keys) = value else {
            return self.fail(
                pointer,
                format!("expected a rule: a mapping with `when` and one of `turns`, {}", quoted(OUTCOMES)),
            );
        };
        self.known_keys(keys, RULE_KEYS, pointer);
        let when = keys.get("when").map_or(Some(When::default()), |when| self.when(when, &format!("{pointer}/when")));
        let times = keys.get("times").and_then(|times| self.count(times, &format!("{pointer}/times")));
        let hash = keys.get("hash").and_then(|hash| self.text(hash, &format!("{pointer}/hash")));
        let request = keys.get("request").and_then(|text| self.text(text, &format!("{pointer}/request")));
        let steps = match keys.get("turns") {
            None => self.step(keys, pointer).map(|step| vec![step]),
            Some(_) if STEP_KEYS.iter().any(|key| keys.contains_key(*key)) => {
                self.fail(pointer, "`turns` stands in place of an answer: move the answer into the list")
            }
            Some(Value::Array(turns)) if !turns.is_empty() => {
                self.each(turns, &format!("{pointer}/turns"), Reader::turn)
            }
            Some(_) => self.fail(&format!("{pointer}/turns"), "expected a list of at least one answer"),
        };
        Some(Rule { when: when?, times, steps: steps?, turns: keys.contains_key("turns"), hash, request })
    }

    fn turn(&mut self, value: &Value, pointer: &str) -> Option<Step> {
        let Value::Object(keys) = value else {
            return self.fail(pointer, format!("expected an answer: a mapping with one of {}", quoted(OUTCOMES)));
        };
        self.known_keys(keys, STEP_KEYS, pointer);
        self.step(keys, pointer)
    }

    fn when(&mut self, value: &Value, pointer: &str) -> Option<When> {
        let Value::Object(keys) = value else {
            return self.fail(pointer, format!("expected a mapping with any of {}", quoted(WHEN_KEYS)));
        };
        self.known_keys(keys, WHEN_KEYS, pointer);
        let mut text = |key: &str| keys.get(key).and_then(|value| self.text(value, &format!("{pointer}/{key}")));
        let (action, model, contains, tool_result) =
            (text("action"), text("model"), text("contains"), text("tool_result"));
        let turn = keys.get("turn").and_then(|turn| self.count(turn, &format!("{pointer}/turn")));
        Some(When { action, model, contains, tool_result, turn })
    }

    fn step(&mut self, keys: &Map<String, Value>, pointer: &str) -> Option<Step> {
        let given: Vec<&str> = OUTCOMES.iter().copied().filter(|key| keys.contains_key(*key)).collect();
        let [key] = given[..] else {
            let found = if given.is_empty() { "none".to_string() } else { quoted(&given) };
            return self.fail(pointer, format!("expected exactly one of {}, found {found}", quoted(OUTCOMES)));
        };
        let (value, place) = (&keys[key], format!("{pointer}/{key}"));
        let outcome = match key {
            "reply" => Some(Outcome::Reply(value.clone())),
            "raw" => self.text(value, &place).map(Outcome::Raw),
            "refuse" => self.text(value, &place).map(Outcome::Refuse),
            "call" => self.calls(value, &place).map(Outcome::Call),
            _ => self.error(value, &place),
        };
        let usage = keys.get("usage").and_then(|usage| self.usage(usage, &format!("{pointer}/usage")));
        let delay = keys.get("delay").and_then(|delay| self.duration(delay, &format!("{pointer}/delay")));
        let thinking = keys.get("thinking").and_then(|thinking| self.text(thinking, &format!("{pointer}/thinking")));
        let truncate = keys.get("truncate").and_then(|flag| self.flag(flag, &format!("{pointer}/truncate")));
        Some(Step { outcome: outcome?, usage, delay, thinking, truncate: truncate.unwrap_or(false) })
    }

    fn calls(&mut self, value: &Value, pointer: &str) -> Option<Vec<(String, Value)>> {
        match value {
            Value::Array(calls) if !calls.is_empty() => self.each(calls, pointer, Reader::tool_call),
            Value::Object(_) => self.tool_call(value, pointer).map(|call| vec![call]),
            _ => self.fail(pointer, "expected a list of `{tool: name, with: {…}}`"),
        }
    }

    fn tool_call(&mut self, value: &Value, pointer: &str) -> Option<(String, Value)> {
        let Value::Object(keys) = value else {
            return self.fail(pointer, "expected `{tool: name, with: {…}}`");
        };
        self.known_keys(keys, &["tool", "with"], pointer);
        let Some(tool) = keys.get("tool") else { return self.fail(pointer, "a call names its `tool`") };
        let tool = self.text(tool, &format!("{pointer}/tool"))?;
        Some((tool, keys.get("with").cloned().unwrap_or_else(|| Value::Object(Map::new()))))
    }

    fn error(&mut self, value: &Value, pointer: &str) -> Option<Outcome> {
        let Value::Object(keys) = value else {
            return match value.as_u64().and_then(|status| u16::try_from(status).ok()) {
                Some(status) => Some(Outcome::Error { status: Some(status), retry_after: None, message: None }),
                None => self.fail(pointer, "expected `{status: 500, retry_after: 1, message: …}`"),
            };
        };
        self.known_keys(keys, &["status", "retry_after", "message"], pointer);
        let status = keys.get("status").and_then(|status| match status.as_u64() {
            Some(code @ 400..=599) => u16::try_from(code).ok(),
            _ => self.fail(&format!("{pointer}/status"), "expected an HTTP status from 400 to 599"),
        });
        let retry_after =
            keys.get("retry_after").and_then(|wait| self.seconds(wait, &format!("{pointer}/retry_after")));
        let message = keys.get("message").and_then(|message| self.text(message, &format!("{pointer}/message")));
        Some(Outcome::Error { status, retry_after, message })
    }

    fn usage(&mut self, value: &Value, pointer: &str) -> Option<Usage> {
        let Value::Object(keys) = value else {
            return self.fail(pointer, "expected `{input_tokens: n, output_tokens: n}`");
        };
        let known = &["input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "thinking_tokens"];
        self.known_keys(keys, known, pointer);
        let mut count = |key: &str| {
            keys.get(key).and_then(|value| match value.as_u64() {
                Some(count) => Some(count),
                None => self.fail(&format!("{pointer}/{key}"), "expected a number of tokens"),
            })
        };
        Some(Usage {
            input_tokens: count("input_tokens").unwrap_or(0),
            output_tokens: count("output_tokens").unwrap_or(0),
            cached_input_tokens: count("cached_input_tokens").unwrap_or(0),
            cache_write_tokens: count("cache_write_tokens").unwrap_or(0),
            thinking_tokens: count("thinking_tokens").unwrap_or(0),
        })
    }

    fn text(&mut self, value: &Value, pointer: &str) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            _ => self.fail(pointer, format!("expected text, found `{value}`")),
        }
    }

    fn flag(&mut self, value: &Value, pointer: &str) -> Option<bool> {
        match value {
            Value::Bool(flag) => Some(*flag),
            _ => self.fail(pointer, format!("expected `true` or `false`, found `{value}`")),
        }
    }

    fn count(&mut self, value: &Value, pointer: &str) -> Option<u64> {
        match value.as_u64() {
            Some(count) if count > 0 => Some(count),
            _ => self.fail(pointer, format!("expected a number from 1, found `{value}`")),
        }
    }

    fn seconds(&mut self, value: &Value, pointer: &str) -> Option<Duration> {
        match value.as_f64() {
            Some(seconds) => match Duration::try_from_secs_f64(seconds) {
                Ok(duration) => Some(duration),
                Err(_) => self.fail(pointer, format!("expected a number of seconds, found `{value}`")),
            },
            None => self.duration(value, pointer),
        }
    }

    fn duration(&mut self, value: &Value, pointer: &str) -> Option<Duration> {
        match value.as_str().and_then(parse_duration) {
            Some(duration) => Some(duration),
            None => self.fail(pointer, format!("expected a duration such as `200ms` or `5s`, found `{value}`")),
        }
    }
}

/// Reads `500ms 30s 5m 2h 3d` (language.md 4).
fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|character: char| character.is_ascii_alphabetic())?;
    let number: f64 = text[..unit_at].trim().parse().ok()?;
    let seconds = match &text[unit_at..] {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        "d" => number * 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Escapes a key for a JSON pointer.
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_every_kind_of_answer() {
        let script = Script::from_value(&json!({"replies": [
            {"when": {"action": "a", "model": "m", "contains": "c", "tool_result": "t", "turn": 2}, "reply": {"x": 1}, "times": 2,
             "usage": {"input_tokens": 3}, "delay": "200ms", "thinking": "hm", "truncate": true},
            {"turns": [{"call": [{"tool": "web", "with": {"q": 1}}, {"tool": "now"}]}, {"reply": null}]},
            {"error": {"status": 429, "retry_after": 1.5, "message": "slow down"}},
            {"refuse": "no"}, {"raw": "not { json"}, {"error": {}},
        ]}))
        .unwrap();
        let first = &script.rules[0];
        assert_eq!((first.times, first.when.turn, first.steps[0].truncate), (Some(2), Some(2), true));
        assert_eq!(first.steps[0].delay, Some(Duration::from_millis(200)));
        assert_eq!(
            script.rules[1].steps[0].outcome,
            Outcome::Call(vec![("web".into(), json!({"q": 1})), ("now".into(), json!({}))])
        );
        assert_eq!(script.rules[1].steps[1].outcome, Outcome::Reply(Value::Null));
        let slow = Outcome::Error {
            status: Some(429),
            retry_after: Some(Duration::from_millis(1500)),
            message: Some("slow down".into()),
        };
        assert_eq!(script.rules[2].steps[0].outcome, slow);
    }

    #[test]
    fn reports_every_mistake_with_its_place() {
        let errors = Script::from_value(&json!({"replies": [
            {"when": {"acton": "a"}, "reply": 1},
            {"reply": 1, "raw": "x"},
            {"when": {"action": "a"}},
            {"turns": [{"delay": 5, "reply": 1}]},
            {"error": {"status": 200}},
            {"reply": 1, "times": 0},
            7,
        ]}))
        .unwrap_err();
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "/replies/0/when/acton: unknown key `acton`; did you mean `action`?",
                "/replies/1: expected exactly one of `reply`, `call`, `error`, `refuse`, `raw`, found `reply`, `raw`",
                "/replies/2: expected exactly one of `reply`, `call`, `error`, `refuse`, `raw`, found none",
                "/replies/3/turns/0/delay: expected a duration such as `200ms` or `5s`, found `5`",
                "/replies/4/error/status: expected an HTTP status from 400 to 599",
                "/replies/5/times: expected a number from 1, found `0`",
                "/replies/6: expected a rule: a mapping with `when` and one of `turns`, `reply`, `call`, `error`, `refuse`, `raw`",
            ]
        );
    }

    #[test]
    fn a_file_without_rules_says_what_a_script_is() {
        assert_eq!(Script::from_value(&json!([])).unwrap_err().len(), 1);
        assert_eq!(Script::from_value(&json!({"reply": []})).unwrap_err().len(), 2);
    }

    #[test]
    fn replies_by_action_take_bare_data() {
        let script = Script::from_replies_by_action(&json!({
            "extract": {"reply": {"name": "Lynda"}},
            "bare": {"name": "Lynda", "reply": "is a field here"},
            "text": "hello",
            "find": {"turns": [{"error": {"status": 429}}, {"reply": {"items": []}}]},
        }))
        .unwrap();
        assert_eq!(script.rules[0].steps[0].outcome, Outcome::Reply(json!({"name": "Lynda"})));
        assert_eq!(
            script.rules[1].steps[0].outcome,
            Outcome::Reply(json!({"name": "Lynda", "reply": "is a field here"}))
        );
        assert_eq!(script.rules[3].steps.len(), 2);
        assert_eq!(script.rules[3].when.action.as_deref(), Some("find"));
    }
}
