//! What this program has used, as Linux tells it; zero elsewhere.

use std::time::Duration;

/// Resident memory, in bytes.
pub(crate) fn resident() -> u64 {
    status("VmRSS:")
}

/// The most memory that was resident so far, in bytes.
pub(crate) fn peak() -> u64 {
    status("VmHWM:")
}

fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or_default() * 1_024
}

/// Processor time of all threads, user and system; in steps of a hundredth of a second.
pub(crate) fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before it stands in brackets and may hold anything.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}
