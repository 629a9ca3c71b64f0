//! A reply while its pieces come, for wires whose pieces are text, thinking and calls in the order of the reply.

use serde_json::Value;

use super::error::{LlmError, LlmErrorKind};
use super::http::{Http, too_large, words_of};
use super::parse::REPLY_BYTES_MAX;
use super::reply::{Delta, DeltaSink, Finish, Reply, Usage, read_arguments};
use super::request::{Part, Request};
use super::structured;

/// Pieces so far. What is one thing (text after text) becomes one part.
pub(crate) struct Assembly<'a> {
    http: &'a Http,
    sink: &'a dyn DeltaSink,
    parts: Vec<Piece>,
    calls: usize,
    bytes: usize,
    /// The figures so far.
    pub(crate) usage: Usage,
    /// The model's name, when the provider has said it.
    pub(crate) model: Option<String>,
}

enum Piece {
    Text(String),
    Thinking { text: String, signature: String },
    Call { index: usize, id: String, name: String, arguments: String },
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(http: &'a Http, sink: &'a dyn DeltaSink) -> Assembly<'a> {
        Assembly { http, sink, parts: Vec::new(), calls: 0, bytes: 0, usage: Usage::default(), model: None }
    }

    /// More text.
    pub(crate) fn text(&mut self, piece: &str) -> Result<(), LlmError> {
        if piece.is_empty() {
            return Ok(());
        }
        self.count(piece.len())?;
        match self.parts.last_mut() {
            Some(Piece::Text(text)) => text.push_str(piece),
            _ => self.parts.push(Piece::Text(piece.to_string())),
        }
        self.sink.delta(Delta::Text(piece.to_string()));
        Ok(())
    }

    /// More thinking; a thought that has its signature is complete, so that another one begins.
    pub(crate) fn thinking(&mut self, piece: &str) -> Result<(), LlmError> {
        if piece.is_empty() {
            return Ok(());
        }
        self.count(piece.len())?;
        match self.parts.last_mut() {
            Some(Piece::Thinking { text, signature }) if signature.is_empty() => text.push_str(piece),
            _ => self.parts.push(Piece::Thinking { text: piece.to_string(), signature: String::new() }),
        }
        self.sink.delta(Delta::Thinking(piece.to_string()));
        Ok(())
    }

    /// The signature of the thought before it; without one, a thought that the provider keeps to itself.
    pub(crate) fn signature(&mut self, signature: String) -> Result<(), LlmError> {
        self.count(signature.len())?;
        match self.parts.last_mut() {
            Some(Piece::Thinking { signature: none, .. }) if none.is_empty() => *none = signature,
            _ => self.parts.push(Piece::Thinking { text: String::new(), signature }),
        }
        Ok(())
    }

    /// A call begins; returns its number for [`Assembly::arguments`].
    pub(crate) fn begin_call(&mut self, id: &str, name: &str) -> Result<usize, LlmError> {
        self.count(id.len() + name.len() + 1)?;
        let index = self.calls;
        self.calls += 1;
        let (id, name) = (id.to_string(), name.to_string());
        self.sink.delta(Delta::ToolCall { index, name: name.clone() });
        self.parts.push(Piece::Call { index, id, name, arguments: String::new() });
        Ok(index)
    }

    /// More of a call's arguments, as JSON text.
    pub(crate) fn arguments(&mut self, call: usize, fragment: &str) -> Result<(), LlmError> {
        if fragment.is_empty() {
            return Ok(());
        }
        self.count(fragment.len())?;
        for piece in &mut self.parts {
            if let Piece::Call { index, arguments, .. } = piece
                && *index == call
            {
                arguments.push_str(fragment);
                self.sink.delta(Delta::ToolArguments { index: call, fragment: fragment.to_string() });
                return Ok(());
            }
        }
        Ok(())
    }

    /// A call that comes whole.
    pub(crate) fn whole_call(&mut self, id: &str, name: &str, arguments: Option<&Value>) -> Result<(), LlmError> {
        let call = self.begin_call(id, name)?;
        match arguments {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(text)) => self.arguments(call, text),
            Some(value) => self.arguments(call, &value.to_string()),
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.bytes += bytes;
        if self.bytes > REPLY_BYTES_MAX { Err(too_large(self.http)) } else { Ok(()) }
    }

    /// The reply. `Finish::Stop` becomes `ToolCalls` where there are calls; a refusal without words gets the text's.
    pub(crate) fn finish(self, finish: Finish, request: &Request) -> Reply {
        let part = |piece: Piece| match piece {
            Piece::Text(text) => Part::Text { text },
            Piece::Thinking { text, signature } => {
                Part::Thinking { text, signature: (!signature.is_empty()).then_some(signature) }
            }
            Piece::Call { index, id, name, arguments } => Part::ToolCall {
                id: if id.is_empty() { own_call_id(request.turn, index) } else { id },
                name,
                arguments: read_arguments(&arguments),
            },
        };
        let mut parts: Vec<Part> = self.parts.into_iter().map(part).collect();
        structured::settle_arguments(&request.tools, &mut parts);
        let finish = match finish {
            Finish::Stop if self.calls > 0 => Finish::ToolCalls,
            Finish::Refusal(words) if words.is_empty() => Finish::Refusal(super::request::text_of(&parts)),
            finish => finish,
        };
        Reply {
            parts,
            finish,
            usage: self.usage,
            model: self.model.unwrap_or_else(|| request.model.clone()),
            from_cache: false,
        }
    }
}

/// The id of a call whose provider gives none.
pub(crate) fn own_call_id(turn: usize, index: usize) -> String {
    format!("call_{turn}_{}", index + 1)
}

/// Whether [`own_call_id`] made it.
pub(crate) fn is_own_call_id(id: &str) -> bool {
    id.strip_prefix("call_").and_then(|rest| rest.split_once('_')).is_some_and(|(turn, index)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number(turn) && is_number(index)
    })
}

/// The error of a stream that ended before its reply did.
pub(crate) fn cut_off(http: &Http) -> LlmError {
    http.error(LlmErrorKind::Transport, "ended its stream in the middle of the reply")
}

/// Reads one event's data.
pub(crate) fn event_json(http: &Http, data: &str) -> Result<Value, LlmError> {
    serde_json::from_str(data).map_err(|error| {
        let words = words_of(data.as_bytes());
        http.error(LlmErrorKind::Protocol, &format!("sent an event that is not JSON ({error}): {words}"))
    })
}

/// The error of a whole answer that lacks what makes it one.
pub(crate) fn answered_without(http: &Http, what: &str, body: &Value) -> LlmError {
    let words = words_of(body.to_string().as_bytes());
    http.error(LlmErrorKind::Protocol, &format!("answered without `{what}`: {words}"))
}

/// Tags a provider's proof of origin, so that no other provider is sent it.
pub(crate) fn tagged(wire: &str, signature: &str) -> String {
    format!("{wire}:{signature}")
}

/// The signature that this wire tagged.
pub(crate) fn untagged<'s>(wire: &str, signature: &'s str) -> Option<&'s str> {
    signature.strip_prefix(wire)?.strip_prefix(':')
}
