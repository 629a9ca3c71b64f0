//! Which two things can ever be so at once (the pairs of h2, Haslum and Geffner 2000): a proof that there is no plan where nothing
//! being ever undone says too little, such as when a step uses up what a later one needs.
//!
//! It takes time in the square of the facts, so it is asked only once a search turns out long.

use super::super::problem::Limits;
use super::task::Task;

/// Bytes that the table of pairs may take.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// Returns whether it is proved that the goal cannot be reached; `false` also when there is no room or no time to tell.
pub(super) fn disprove(task: &Task, limits: &Limits) -> bool {
    // The atom after those of the facts always holds: actions without preconditions wait for it.
    let always = 2 * task.facts;
    let words = (always + 1).div_ceil(64);
    if (always + 1) * words * 8 > TABLE_BYTES_MAX.min(limits.memory_bytes_max / 4) {
        return false;
    }
    let mut pairs = Pairs { words, rows: vec![0; (always + 1) * words] };
    let given = |&(fact, value): &(u32, bool)| {
        let (t, f) = task.start[fact as usize];
        if value { t } else { f }
    };
    let start: Vec<usize> = (0..task.facts as u32)
        .flat_map(|fact| [(fact, false), (fact, true)])
        .filter(given)
        .map(|(fact, value)| atom(fact, value))
        .chain([always])
        .collect();
    start.iter().for_each(|&a| start.iter().for_each(|&b| pairs.set(a, b)));
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); always + 1];
    for (index, op) in task.ops.iter().enumerate() {
        op.pre.iter().for_each(|&(fact, value)| users[atom(fact, value)].push(index as u32));
        if op.pre.is_empty() {
            users[always].push(index as u32);
        }
    }
    let goal: Vec<usize> = task.goal.iter().map(|&(fact, value)| atom(fact, value)).collect();
    let mut queue: std::collections::VecDeque<u32> = (0..task.ops.len() as u32).collect();
    let mut queued = vec![true; task.ops.len()];
    let mut rounds = 0u64;
    // An action is looked at again when anything became possible beside one of its preconditions.
    while let Some(index) = queue.pop_front() {
        queued[index as usize] = false;
        rounds += 1;
        if rounds.is_multiple_of(64) && (limits.stop.is_some_and(|stop| stop()) || pairs.have(&goal)) {
            return false;
        }
        pairs.apply(task, index as usize, |changed| {
            for &user in &users[changed] {
                if !std::mem::replace(&mut queued[user as usize], true) {
                    queue.push_back(user);
                }
            }
        });
    }
    !pairs.have(&goal)
}

/// For each literal, the literals that may be so at the same time, itself included if it may be so at all.
struct Pairs {
    words: usize,
    rows: Vec<u64>,
}

impl Pairs {
    fn get(&self, a: usize, b: usize) -> bool {
        self.rows[a * self.words + b / 64] >> (b % 64) & 1 == 1
    }

    fn set(&mut self, a: usize, b: usize) {
        self.rows[a * self.words + b / 64] |= 1 << (b % 64);
    }

    /// Returns whether literals may all be so at once, two by two.
    fn have(&self, atoms: &[usize]) -> bool {
        atoms.iter().enumerate().all(|(at, &a)| atoms[..=at].iter().all(|&b| self.get(a, b)))
    }

    /// Adds what an action can bring about beside what; tells each literal with something new beside it.
    fn apply(&mut self, task: &Task, index: usize, mut tell: impl FnMut(usize)) {
        let op = &task.ops[index];
        let pre: Vec<usize> = op.pre.iter().map(|&(fact, value)| atom(fact, value)).collect();
        if !self.have(&pre) {
            return;
        }
        let mut beside = self.rows[2 * task.facts * self.words..].to_vec();
        for &a in &pre {
            let row = &self.rows[a * self.words..(a + 1) * self.words];
            beside.iter_mut().zip(row).for_each(|(all, row)| *all &= row);
        }
        for &(fact, value) in &op.pre {
            let other = atom(fact, !value);
            beside[other / 64] &= !(1 << (other % 64));
        }
        let mut made: Vec<usize> = Vec::with_capacity(2 * op.effects.len());
        for &(fact, t, f) in &op.effects {
            for (a, on) in [(atom(fact, false), f), (atom(fact, true), t)] {
                beside[a / 64] &= !(1 << (a % 64));
                if on {
                    beside[a / 64] |= 1 << (a % 64);
                    made.push(a);
                }
            }
        }
        for a in made {
            let mut news = false;
            for (word, &may) in beside.iter().enumerate() {
                let mut new = may & !self.rows[a * self.words + word];
                self.rows[a * self.words + word] |= new;
                while new != 0 {
                    let b = word * 64 + new.trailing_zeros() as usize;
                    new &= new - 1;
                    news = true;
                    if b != a {
                        self.set(b, a);
                        tell(b);
                    }
                }
            }
            if news {
                tell(a);
            }
        }
    }
}

fn atom(fact: u32, value: bool) -> usize {
    2 * fact as usize + usize::from(value)
}
