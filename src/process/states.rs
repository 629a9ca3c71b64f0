//! States: entering one, so that only its actions are planned over (language.md 7).

use std::sync::Arc;

use super::event::What;
use super::run::Process;

impl Process {
    /// Whether the object at a position is a state.
    pub(super) fn is_state(&self, at: usize) -> bool {
        let types = &self.core().agent.types;
        self.board.get(at).is_some_and(|object| types.is_state(object.type_id))
    }

    /// Enters the state whose object stands at a position: the actions of states may run again, and what the last step
    /// was to bring is not waited for. The same state with the same data is entered anew.
    pub(super) fn enter(&mut self, at: usize) {
        self.state = Some(at);
        let agent = self.core().agent.clone();
        let marks = Arc::make_mut(&mut self.marks);
        for (ran, action) in marks.ran.iter_mut().zip(&agent.actions) {
            *ran &= action.state.is_none();
        }
        self.expected.clear();
        self.changes += 1;
        let entered = self.board.get(at).map(|object| agent.types.name(object.type_id).to_owned());
        self.core().emit(|| What::StateEntered { state: entered.unwrap_or_default(), object: at });
    }
}
