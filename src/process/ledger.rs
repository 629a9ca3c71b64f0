//! What a process has used up, against its limits (runtime.md 3).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::action::{Failure, FailureKind, lasting};
use crate::llm::Usage;
use crate::program::Limits;

use super::journal::Spent;

/// What was used so far, sub-processes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Actions that were begun.
    pub actions: u64,
    /// Plans that differ from the rest of the one before.
    pub replans: u64,
    /// Calls to models.
    pub llm_calls: u64,
    /// Calls to tools.
    pub tool_calls: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
}

/// What was used, and how long the process was at work, before the message at hand of a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    /// What was used.
    pub used: Used,
    /// How long it was at work.
    pub time: Duration,
}

/// The account of one process; what a sub-process uses is on its parent's account too.
#[derive(Debug)]
pub struct Ledger {
    limits: RwLock<Limits>,
    started: Instant,
    /// Time at work before the account was opened again.
    time_before: Duration,
    used: Mutex<Used>,
    /// What the process itself has used, its sub-processes left out.
    own: Mutex<Used>,
    /// What was used up before the message at hand; limits count from there.
    before: Mutex<Before>,
    parent: Option<Arc<Ledger>>,
}

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An action.
    Action,
    /// A call to a model.
    LlmCall,
}

impl Ledger {
    /// Opens an account.
    pub fn new(limits: Limits, parent: Option<Arc<Ledger>>) -> Ledger {
        Ledger::again(limits, parent, Spent::default())
    }

    /// Opens the account of a process again that was left. What its parent's account says stays as it is: it says this
    /// already.
    pub fn again(limits: Limits, parent: Option<Arc<Ledger>>, spent: Spent) -> Ledger {
        let (used, own) = (Mutex::new(spent.total), Mutex::new(spent.own));
        let (started, before, limits) = (Instant::now(), Mutex::default(), RwLock::new(limits));
        Ledger { limits, started, time_before: spent.time, used, own, before, parent }
    }

    /// What was used so far, in all its parts.
    pub fn spent(&self) -> Spent {
        Spent { own: *locked(&self.own), total: self.used(), time: self.at_work() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets other limits from now on; what was used stays used.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The account of the process that it belongs to.
    pub fn parent(&self) -> Option<&Ledger> {
        self.parent.as_deref()
    }

    /// What was used so far.
    pub fn used(&self) -> Used {
        *self.lock()
    }

    /// How long the process was at work for the message at hand; from its beginning in one that is no chat.
    pub fn elapsed(&self) -> std::time::Duration {
        self.at_work().saturating_sub(self.before().time)
    }

    fn at_work(&self) -> Duration {
        self.time_before.saturating_add(self.started.elapsed())
    }

    fn before(&self) -> Before {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what is next when a limit of the process, or of one it belongs to, is reached.
    ///
    /// # Errors
    /// A failure of kind `limit` with the figure.
    pub fn check(&self, next: Next) -> Result<(), Failure> {
        if let Some(message) = self.exceeded(next) {
            return Err(Failure::new(FailureKind::Limit, message));
        }
        match &self.parent {
            Some(parent) => parent.check(next),
            None => Ok(()),
        }
    }

    /// Whether the time of the process, or of one it belongs to, is up: planning stops then.
    pub fn is_out_of_time(&self) -> bool {
        self.limits().time.is_some_and(|most| self.elapsed() >= most)
            || self.parent.as_ref().is_some_and(|parent| parent.is_out_of_time())
    }

    fn exceeded(&self, next: Next) -> Option<String> {
        let (used, limits) = (self.used_for_message(), self.limits());
        let tokens = used.input_tokens + used.output_tokens;
        if next == Next::Action && used.actions + used.replans >= limits.actions {
            let most = counted(limits.actions, "action");
            return Some(match used.replans {
                0 => format!("the limit of {most} is reached"),
                replans => format!(
                    "the limit of {most} is reached ({}, {})",
                    counted(used.actions, "action"),
                    counted(replans, "replan")
                ),
            });
        }
        if used.cost_usd > 0.0 && used.cost_usd >= limits.cost {
            return Some(format!("the limit on cost of ${} is reached (${:.4} used)", limits.cost, used.cost_usd));
        }
        if tokens > 0 && tokens >= limits.tokens {
            return Some(format!("the limit of {} tokens is reached ({tokens} used)", limits.tokens));
        }
        let calls = limits.llm_calls.filter(|most| next == Next::LlmCall && used.llm_calls >= *most);
        if let Some(most) = calls {
            return Some(format!("the limit of {} is reached", counted(most, "LLM call")));
        }
        limits.time.filter(|most| self.elapsed() >= *most).map(time_is_up)
    }

    /// Waits until the limit on time of the process, or of one it belongs to, is reached, and says so.
    pub async fn out_of_time(&self) -> Failure {
        let mut nearest: Option<(Instant, Duration)> = None;
        let mut next = Some(self);
        while let Some(ledger) = next {
            if let Some(most) = ledger.limits().time
                && let Some(end) = Instant::now().checked_add(most.saturating_sub(ledger.elapsed()))
                && nearest.is_none_or(|(before, _)| end < before)
            {
                nearest = Some((end, most));
            }
            next = ledger.parent.as_deref();
        }
        let Some((end, most)) = nearest else { return std::future::pending().await };
        tokio::time::sleep_until(end).await;
        Failure::new(FailureKind::Limit, time_is_up(most))
    }

    /// From here on limits count what is used for a new message of a chat (runtime.md 3); the account goes on. Says what
    /// was used before it.
    pub fn begin_message(&self) -> Before {
        let before = Before { used: self.used(), time: self.at_work() };
        self.go_on_with_message(before);
        before
    }

    /// The same for a message that was begun before the account was opened again.
    pub fn go_on_with_message(&self, before: Before) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
    }

    /// What was used for the message at hand; everything in a process that is no chat.
    fn used_for_message(&self) -> Used {
        let (used, before) = (self.used(), self.before().used);
        Used {
            actions: used.actions.saturating_sub(before.actions),
            replans: used.replans.saturating_sub(before.replans),
            llm_calls: used.llm_calls.saturating_sub(before.llm_calls),
            tool_calls: used.tool_calls.saturating_sub(before.tool_calls),
            input_tokens: used.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: used.output_tokens.saturating_sub(before.output_tokens),
            cost_usd: used.cost_usd - before.cost_usd,
        }
    }

    /// Puts one call to a model on the account.
    pub fn charge_llm(&self, usage: &Usage, cost_usd: f64) {
        self.each(&|used| {
            used.llm_calls += 1;
            used.input_tokens += usage.input_tokens;
            used.output_tokens += usage.output_tokens;
            used.cost_usd += cost_usd;
        });
    }

    /// Puts one action on the account.
    pub fn charge_action(&self) {
        self.each(&|used| used.actions += 1);
    }

    /// Puts one replan on the account.
    pub fn charge_replan(&self) {
        self.each(&|used| used.replans += 1);
    }

    /// Puts one call to a tool on the account.
    pub fn charge_tool(&self) {
        self.each(&|used| used.tool_calls += 1);
    }

    fn each(&self, change: &dyn Fn(&mut Used)) {
        change(&mut locked(&self.own));
        self.each_total(change);
    }

    fn each_total(&self, change: &dyn Fn(&mut Used)) {
        change(&mut self.lock());
        if let Some(parent) = &self.parent {
            parent.each_total(change);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        locked(&self.used)
    }
}

fn locked(used: &Mutex<Used>) -> MutexGuard<'_, Used> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, other: Used) {
        self.actions += other.actions;
        self.replans += other.replans;
        self.llm_calls += other.llm_calls;
        self.tool_calls += other.tool_calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_usd += other.cost_usd;
    }
}

fn time_is_up(most: Duration) -> String {
    format!("the limit on time of {} is reached", lasting(most))
}

/// A number of things, such as `1 action` or `2 actions`.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sub_process_draws_on_its_parents_account() {
        let parent = Arc::new(Ledger::new(Limits { tokens: 100, ..Limits::default() }, None));
        let child = Ledger::new(Limits::default(), Some(parent.clone()));
        child.charge_llm(&Usage { input_tokens: 60, output_tokens: 40, ..Usage::default() }, 0.5);
        assert_eq!(parent.used().cost_usd, 0.5);
        let failure = child.check(Next::LlmCall).unwrap_err();
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            (FailureKind::Limit, "the limit of 100 tokens is reached (100 used)")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn every_limit_is_told_with_its_figure() {
        let limits = Limits { actions: 2, cost: 1.0, llm_calls: Some(1), ..Limits::default() };
        let ledger = Ledger::new(limits, None);
        assert!(ledger.check(Next::Action).is_ok());
        ledger.charge_action();
        ledger.charge_replan();
        assert_eq!(
            ledger.check(Next::Action).unwrap_err().message,
            "the limit of 2 actions is reached (1 action, 1 replan)"
        );
        assert!(ledger.check(Next::LlmCall).is_ok());
        ledger.charge_llm(&Usage::default(), 0.0);
        assert_eq!(ledger.check(Next::LlmCall).unwrap_err().message, "the limit of 1 LLM call is reached");
        ledger.charge_llm(&Usage::default(), 1.0);
        assert_eq!(
            ledger.check(Next::LlmCall).unwrap_err().message,
            "the limit on cost of $1 is reached ($1.0000 used)"
        );
        let timed = Ledger::new(Limits { time: Some(std::time::Duration::from_secs(5)), ..Limits::default() }, None);
        assert!(!timed.is_out_of_time());
        tokio::time::advance(std::time::Duration::from_secs(6)).await;
        assert!(timed.is_out_of_time());
        assert_eq!(timed.check(Next::Action).unwrap_err().message, "the limit on time of 5 s is reached");
    }
}
