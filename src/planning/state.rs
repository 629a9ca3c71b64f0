//! What is known at one moment: a truth for every fact, in two bits.
//!
//! A fact may satisfy `true`, `false`, both (open) or neither (unknown). Keeping "can be true" and "can be false" as two
//! bitsets makes every test of preconditions a few word operations, with no case for the third and fourth value.

use super::domain::FactId;

/// The truth of one fact in a [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// Known to hold.
    True,
    /// Known not to hold.
    False,
    /// May turn out either way: satisfies either requirement while planning, and relying on it is one assumption.
    Open,
    /// Cannot be judged, because an object it mentions is missing: satisfies nothing until an action sets or opens it.
    Unknown,
}

impl Truth {
    /// Returns the definite truth for a boolean.
    pub fn known(value: bool) -> Self {
        if value { Truth::True } else { Truth::False }
    }
}

/// The truth of every fact of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Number of facts.
    facts: usize,
    /// Bit set: the fact can satisfy a requirement for `true`.
    pub(crate) can_true: Vec<u64>,
    /// Bit set: the fact can satisfy a requirement for `false`.
    pub(crate) can_false: Vec<u64>,
}

impl State {
    /// Returns a state of `facts` facts that all have one truth.
    pub fn all(facts: usize, truth: Truth) -> Self {
        let words = facts.div_ceil(64);
        let mut state = State { facts, can_true: vec![0; words], can_false: vec![0; words] };
        for index in 0..facts {
            state.set(FactId(index as u32), truth);
        }
        state
    }

    /// Returns the number of facts.
    pub fn len(&self) -> usize {
        self.facts
    }

    /// Returns whether the state has no facts.
    pub fn is_empty(&self) -> bool {
        self.facts == 0
    }

    /// Returns the truth of a fact; a fact that the state does not know of is [`Truth::Unknown`].
    pub fn get(&self, fact: FactId) -> Truth {
        let (word, bit) = place(fact);
        let (Some(t), Some(f)) = (self.can_true.get(word), self.can_false.get(word)) else { return Truth::Unknown };
        match (t & bit != 0, f & bit != 0) {
            (true, true) => Truth::Open,
            (true, false) => Truth::True,
            (false, true) => Truth::False,
            (false, false) => Truth::Unknown,
        }
    }

    /// Sets the truth of a fact; the state grows (with [`Truth::Unknown`]) when the fact lies beyond its end.
    pub fn set(&mut self, fact: FactId, truth: Truth) {
        let (word, bit) = place(fact);
        if word >= self.can_true.len() {
            self.can_true.resize(word + 1, 0);
            self.can_false.resize(word + 1, 0);
        }
        self.facts = self.facts.max(fact.0 as usize + 1);
        let (t, f) = match truth {
            Truth::True => (true, false),
            Truth::False => (false, true),
            Truth::Open => (true, true),
            Truth::Unknown => (false, false),
        };
        put(&mut self.can_true[word], bit, t);
        put(&mut self.can_false[word], bit, f);
    }

    /// Returns whether the fact can satisfy a requirement for `value`, known or assumed.
    pub fn allows(&self, fact: FactId, value: bool) -> bool {
        let truth = self.get(fact);
        truth == Truth::Open || truth == Truth::known(value)
    }

    /// Returns whether the fact is known to have `value`.
    pub fn knows(&self, fact: FactId, value: bool) -> bool {
        self.get(fact) == Truth::known(value)
    }

    /// Returns whether every requirement is known to hold: what it takes to run an action, not only to plan it.
    pub fn holds_strictly(&self, requirements: &[(FactId, bool)]) -> bool {
        requirements.iter().all(|&(fact, value)| self.knows(fact, value))
    }
}

fn place(fact: FactId) -> (usize, u64) {
    (fact.0 as usize / 64, 1 << (fact.0 % 64))
}

fn put(word: &mut u64, bit: u64, on: bool) {
    if on {
        *word |= bit;
    } else {
        *word &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_satisfies_both_and_unknown_neither() {
        let mut state = State::all(70, Truth::Unknown);
        state.set(FactId(66), Truth::Open);
        assert!(state.allows(FactId(66), true) && state.allows(FactId(66), false));
        assert!(!state.knows(FactId(66), true) && !state.knows(FactId(66), false));
        assert!(!state.allows(FactId(3), true) && !state.allows(FactId(3), false));
    }

    #[test]
    fn a_state_grows_with_unknown_facts() {
        let mut state = State::all(1, Truth::False);
        state.set(FactId(200), Truth::True);
        assert_eq!(state.len(), 201);
        assert_eq!(state.get(FactId(100)), Truth::Unknown);
        assert!(state.holds_strictly(&[(FactId(0), false), (FactId(200), true)]));
    }
}
