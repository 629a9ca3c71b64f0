//! A theme: the words in which progress is told beside the facts (`logging: {personality: …}`).

use crate::record;

use super::basic::{List, Name};

record! {
    /// What is said at each turn of a run. Of several phrases each is said in turn; `{agent}` and `{action}` are filled in.
    pub struct Theme = "a theme" {
        /// What the theme is.
        opt description: Name,
        /// A run begins; `{agent}`.
        def begins: List<Name> = List::default(),
        /// Another plan is in force.
        def another_way: List<Name> = List::default(),
        /// An action has succeeded; `{action}`.
        def succeeded: List<Name> = List::default(),
        /// An action has failed; `{action}`.
        def failed: List<Name> = List::default(),
        /// An action has failed, and its `on_error` output was taken; `{action}`.
        def recovered: List<Name> = List::default(),
        /// Nothing came of an action; `{action}`.
        def empty: List<Name> = List::default(),
        /// A person has to answer; `{action}`.
        def waits: List<Name> = List::default(),
        /// The run has reached its goal; `{agent}`.
        def completed: List<Name> = List::default(),
        /// The run has ended otherwise; `{agent}`.
        def ended: List<Name> = List::default(),
    }
}

impl Theme {
    /// The phrases of each turn, with the one variable that they may name.
    pub fn turns(&self) -> [(&'static str, &List<Name>, &'static str); 9] {
        [
            ("begins", &self.begins, "agent"),
            ("another_way", &self.another_way, ""),
            ("succeeded", &self.succeeded, "action"),
            ("failed", &self.failed, "action"),
            ("recovered", &self.recovered, "action"),
            ("empty", &self.empty, "action"),
            ("waits", &self.waits, "action"),
            ("completed", &self.completed, "agent"),
            ("ended", &self.ended, "agent"),
        ]
    }
}
