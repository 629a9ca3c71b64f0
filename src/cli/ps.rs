//! `ps`: the processes of the store.

use console::measure_text_width;
use serde_json::json;

use super::args::Global;
use super::keep;
use super::output::{BOLD, DIM};
use super::project::root_of_command;
use super::terminal::dollars;
use super::{Exit, Fault, Out};

/// Lists the processes of the project's store, the newest last.
pub(super) fn ps(global: &Global, out: &Out) -> Result<Exit, Fault> {
    let root = root_of_command(global)?;
    let rows = match keep::open_existing(&root)? {
        Some(store) => futures::executor::block_on(store.rows())?,
        None => Vec::new(),
    };
    if out.json {
        let listed: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "process": row.process, "agent": row.agent, "status": row.status, "started_at": row.started_at,
                    "updated_at": row.updated_at, "goal": row.goal, "cost_usd": row.cost_usd,
                })
            })
            .collect();
        out.document(&listed);
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        out.note("no process is kept; `agent-run run` keeps what it runs");
        return Ok(Exit::Done);
    }
    let head = ["PROCESS", "AGENT", "STATUS", "UPDATED", "GOAL", "COST"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let cost = if row.cost_usd > 0.0 { dollars(row.cost_usd) } else { String::new() };
        let goal = row.goal.clone().unwrap_or_default();
        let updated = row.updated_at.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ");
        [row.process.clone(), row.agent.clone(), row.status.clone(), updated, goal, cost]
    });
    let table: Vec<[String; 6]> = std::iter::once(head).chain(cells).collect();
    let widths: Vec<usize> =
        (0..6).map(|at| table.iter().map(|row| measure_text_width(&row[at])).max().unwrap_or_default()).collect();
    for (line, row) in table.iter().enumerate() {
        let padded = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width.saturating_sub(measure_text_width(cell)))));
        let text = padded.collect::<Vec<_>>().join("  ").trim_end().to_owned();
        out.line(if line == 0 { out.paint(BOLD, text) } else { text });
    }
    if let Some(row) = rows.iter().rev().find(|row| row.status == "waiting") {
        out.note(out.paint_err(DIM, format!("{} waits for a person: agent-run show {}", row.process, row.process)));
    }
    Ok(Exit::Done)
}
