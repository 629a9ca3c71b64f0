//! Chats: a process that lives from message to message (language.md 7, runtime.md 3).
//!
//! A chat asks for the next message as it would ask any question to a person: a surface answers at once, or the process
//! waits with the form of a `UserMessage` and is resumed with one. Work on a message ends when nothing is left to do, or
//! when the chat's own goal `reply` holds; a declared goal that holds, or `chat: {end: …}` then, ends the chat. What actions
//! made of earlier messages stays on the blackboard, as everywhere; `hide` takes away what is about one message only.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::action::context::{Question, QuestionKind};
use crate::action::{Failure, FailureKind};
use crate::program::Chat;
use crate::prompt::Truth;
use crate::value::TypeId;

use super::document::Status;
use super::event::What;
use super::journal::Record;
use super::ledger::Before;
use super::person;
use super::run::{Given, Process};

/// What the history and events call the chat itself, where an action is named.
const CHAT: &str = "chat";

/// Where a chat is.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Nothing is left to do for the last message.
    awaits: bool,
    /// Messages so far.
    count: u32,
    /// Messages that were there from the beginning.
    queue: VecDeque<Value>,
    /// Whether the greeting was said, or there is none.
    greeted: bool,
    /// No plan was made for the message yet.
    is_new: bool,
}

impl Talk {
    /// A chat that begins; its first messages are taken out of what the run was given.
    pub(super) fn begin(chat: Option<&Chat>, message: Option<TypeId>, given: &mut Vec<Given>) -> Option<Talk> {
        let chat = chat?;
        let (messages, others) = std::mem::take(given).into_iter().partition(|object| Some(object.type_id) == message);
        *given = others;
        let messages: Vec<Given> = messages;
        let queue = messages.into_iter().map(|message| message.value).collect();
        Some(Talk { awaits: true, count: 0, queue, greeted: chat.greeting.is_none(), is_new: true })
    }
}

impl Process {
    /// Where a chat asks for its next message before anything else. Returns whether this round is over with it.
    pub(super) async fn chat_round(&mut self) -> bool {
        let Some(talk) = &mut self.talk else { return false };
        if !std::mem::replace(&mut talk.greeted, true)
            && let Err(failure) = self.greet()
        {
            self.finish(Status::Failed, Some((Some(CHAT.to_owned()), failure)));
            return true;
        }
        if self.talk.as_ref().is_none_or(|talk| !talk.awaits) {
            return false;
        }
        self.next_message().await;
        true
    }

    /// Whether the chat's `end` holds.
    fn chat_is_over(&self) -> bool {
        let end = self.core().agent.chat.as_ref().and_then(|chat| chat.end);
        end.is_some_and(|end| self.core().agent.templates.truth(end, &self.scope()) == Truth::True)
    }

    /// Whether reaching this goal ends the work on a message only.
    pub(super) fn is_reply(&self, goal: usize) -> bool {
        self.core().agent.chat.as_ref().is_some_and(|chat| chat.reply == Some(goal))
    }

    /// Nothing is left to do for the message; `why` it was not answered, when it was not. The chat ends here when its
    /// `end` holds. False for what is no chat.
    pub(super) fn message_done(&mut self, why: Option<String>) -> bool {
        if self.talk.is_none() {
            return false;
        }
        let failure = self.first_failure.take().map(|(action, failure)| format!("`{action}`: {}", failure.message));
        let replied = self.newest_reply().is_some();
        self.core().put(|| Record::MessageDone);
        self.await_message();
        if let (Some(why), false) = (failure.or(why), replied) {
            self.core().emit(|| What::NotAnswered { message: why });
        }
        if self.chat_is_over() {
            self.finish(Status::Completed, None);
        }
        true
    }

    /// Whether no plan was made yet for the message at hand: the first one replaces none. True once for each.
    pub(super) fn begins_message(&mut self) -> bool {
        self.talk.as_mut().is_some_and(|talk| std::mem::take(&mut talk.is_new))
    }

    fn newest_reply(&self) -> Option<usize> {
        let id = self.core().agent.types.id("AssistantMessage")?;
        self.board.newest(id).map(|(at, _)| at)
    }

    fn greet(&mut self) -> Result<(), Failure> {
        let agent = self.core().agent.clone();
        let Some(greeting) = agent.chat.as_ref().and_then(|chat| chat.greeting) else { return Ok(()) };
        let content = agent.templates.render(greeting, &self.scope())?;
        self.core().put(|| Record::Greeted { content: content.clone() });
        self.greeted(content);
        Ok(())
    }

    /// The greeting was said.
    pub(super) fn greeted(&mut self, content: String) {
        if let Some(talk) = &mut self.talk {
            talk.greeted = true;
        }
        if let Some(id) = self.core().agent.types.id("AssistantMessage") {
            self.add(id, None, json!({"content": content}));
        }
    }

    /// A message was taken in, as the journal says; one that was given is not taken again.
    pub(super) fn heard(&mut self, message: Value, before: Option<Before>) {
        if let Some(talk) = &mut self.talk {
            talk.queue.pop_front_if(|first| *first == message);
        }
        self.hear(message);
        if let Some(before) = before {
            self.core().ledger.go_on_with_message(before);
        }
    }

    /// Nothing is left to do for the message.
    pub(super) fn await_message(&mut self) {
        self.first_failure = None;
        if let Some(talk) = &mut self.talk {
            talk.awaits = true;
        }
    }

    /// Takes the first message that the run was given, for a look at what would follow; nothing is said.
    pub fn hear_given(&mut self) {
        // Nothing is sent anywhere, so nothing has to be looked at.
        self.let_all_in();
        let first = self.talk.as_mut().and_then(|talk| talk.queue.pop_front());
        if let Some(message) = first {
            self.hear(message);
        }
    }

    /// Takes the next message: one that was given, one that a surface has, or the process waits for it.
    async fn next_message(&mut self) {
        let Some(talk) = &mut self.talk else { return };
        if let Some(message) = talk.queue.pop_front() {
            return self.let_in(message).await;
        }
        let step = format!("message#{}", talk.count + 1);
        let types = &self.core().agent.types;
        let form = types.id("UserMessage").map(|id| crate::value::schema_of_type(types, id)).unwrap_or_default();
        let question = Question { action: CHAT.to_owned(), kind: QuestionKind::Message, ..Question::ask("", form) };
        let (core, log) = (self.core().clone(), Mutex::default());
        let asked = tokio::select! {
            biased;
            () = core.kill.killed() => Err(Failure::new(FailureKind::Killed, "the process was killed")),
            asked = person::ask(&core, step, question, &log) => asked,
        };
        match asked {
            Ok(message) => self.let_in(message).await,
            Err(failure) if failure.kind == FailureKind::Waiting => self.wait(),
            Err(failure) => {
                let status = if failure.kind == FailureKind::Killed { Status::Killed } else { Status::Failed };
                self.finish(status, Some((Some(CHAT.to_owned()), failure)));
            }
        }
    }

    /// Puts a message past the guardrails. One that is blocked is not answered, and the chat goes on.
    async fn let_in(&mut self, message: Value) {
        let number = self.talk.as_ref().map_or(0, |talk| talk.count) + 1;
        match self.looked_at(message.clone(), &format!("message#{number}")).await {
            Ok(message) => self.hear(message),
            Err(failure) if failure.is_waiting() => {
                if let Some(talk) = &mut self.talk {
                    talk.queue.push_front(message);
                }
                self.wait();
            }
            Err(failure) if failure.kind == FailureKind::Guardrail => {
                if let Some(talk) = &mut self.talk {
                    talk.count = number;
                }
                self.core().steps.clear();
                self.core().emit(|| What::NotAnswered { message: failure.message });
            }
            Err(failure) => {
                let status = match failure.kind {
                    FailureKind::Killed => Status::Killed,
                    FailureKind::Limit => Status::Terminated,
                    _ => Status::Failed,
                };
                self.finish(status, Some((Some(CHAT.to_owned()), failure)));
            }
        }
    }

    /// A message is there: run-once marks, failures and limits begin anew, and it joins conversation and blackboard.
    fn hear(&mut self, message: Value) {
        let agent = self.core().agent.clone();
        let Some(talk) = &mut self.talk else { return };
        (talk.awaits, talk.is_new) = (false, true);
        talk.count += 1;
        let number = talk.count;
        let before = self.core().ledger.begin_message();
        self.core().put(|| Record::Heard { message: message.clone(), before: Some(before) });
        self.core().steps.clear();
        self.core().emit(|| What::MessageReceived {
            number,
            content: message["content"].as_str().unwrap_or_default().to_owned(),
        });
        self.begin_message_marks();
        // Answers to earlier messages are in the conversation; on the blackboard they would answer this one.
        if let Some(reply) = agent.types.id("AssistantMessage") {
            let earlier: Vec<usize> = self.board.of_type(reply).map(|(at, _)| at).collect();
            earlier.into_iter().for_each(|at| self.hide(at));
        }
        if let Some(id) = agent.types.id("UserMessage") {
            self.add(id, None, message);
        }
    }

    /// What the process remembers of actions for the message at hand.
    pub(super) fn begin_message_marks(&mut self) {
        Arc::make_mut(&mut self.marks).ran.fill(false);
        self.out.clear();
        self.first_failure = None;
        self.disappointments.clear();
        self.expected.clear();
        self.in_force = None;
        self.rest.clear();
        self.supervision = None;
    }

    /// A message that goes on the blackboard joins the conversation first, so that it stays the newest object.
    pub(super) fn join_conversation(&mut self, type_id: TypeId, value: &Value) {
        let agent = self.core().agent.clone();
        let (Some(chat), Some(_)) = (&agent.chat, &self.talk) else { return };
        let of = |name: &str| agent.types.id(name).filter(|id| self.board.is_a(type_id, *id));
        let from_person = of("UserMessage").is_some();
        if !from_person && of("AssistantMessage").is_none() {
            return;
        }
        let Some(conversation) = agent.types.id("Conversation") else { return };
        let before = self.board.newest(conversation).map(|(at, object)| (at, object.value.clone()));
        let mut messages =
            before.as_ref().and_then(|(_, value)| value["messages"].as_array().cloned()).unwrap_or_default();
        let kind = if from_person { "UserMessage" } else { "AssistantMessage" };
        messages.push(json!({"type": kind, "content": value["content"]}));
        let most = chat.max_messages.map_or(usize::MAX, |most| most as usize);
        messages.drain(..messages.len().saturating_sub(most));
        if let Some((at, _)) = before {
            self.hide(at);
        }
        self.add(conversation, None, json!({"messages": messages}));
        if !from_person {
            let content = value["content"].as_str().unwrap_or_default().to_owned();
            self.core().emit(|| What::MessageSent { content });
        }
    }
}
