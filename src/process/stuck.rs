//! Being stuck: what is tried when there is no plan (language.md 7).

use crate::planning;

use super::decide::Seen;
use super::run::Process;

impl Process {
    /// The operator of the first `on_stuck` action that can run now and was not tried before.
    pub(super) fn when_stuck(&mut self, seen: &Seen) -> Option<usize> {
        let agent = self.core().agent.clone();
        let domain = self.domain.clone();
        let mut problem = self.problem(&domain, seen).ok()?;
        problem.excluded.clear();
        let is_next = |(operator, action): &(usize, usize)| {
            let on_stuck = agent.actions.get(*action).is_some_and(|action| action.on_stuck);
            on_stuck && !self.tried_when_stuck.contains(action) && planning::applicable_now(&problem, *operator)
        };
        let next = agent.operators.iter().copied().enumerate().find(is_next);
        let (operator, action) = next?;
        self.tried_when_stuck.push(action);
        Some(operator)
    }
}
