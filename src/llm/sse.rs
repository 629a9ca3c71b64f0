//! Server-sent events out of bytes that are cut anywhere: within a line, between CR and LF, inside a UTF-8 character.

use super::parse::REPLY_BYTES_MAX;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseEvent {
    /// The field `event`; empty when there is none.
    pub(crate) event: String,
    /// The `data` lines, joined by newlines.
    pub(crate) data: String,
}

/// Why a stream cannot be decoded: one event is over 16 MiB.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Collects bytes until they make events.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    /// The line that is not ended yet.
    line: Vec<u8>,
    /// The event that is not ended yet.
    pending: SseEvent,
    /// Whether a `data` line, perhaps an empty one, belongs to the pending event.
    has_data: bool,
    /// Whether the last byte was a CR, so that an LF now ends no line of its own.
    after_cr: bool,
    /// Whether the first line, which a byte order mark may open, has ended.
    started: bool,
}

impl SseDecoder {
    /// Takes the next bytes and returns the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLarge> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if self.after_cr && rest.first() == Some(&b'\n') {
            rest = &rest[1..];
        }
        if !bytes.is_empty() {
            self.after_cr = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&rest[..end]);
            self.end_line(&mut events);
            let is_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            match (is_cr, rest.first()) {
                (true, Some(b'\n')) => rest = &rest[1..],
                (true, None) => self.after_cr = true,
                _ => {}
            }
        }
        self.line.extend_from_slice(rest);
        if self.line.len() + self.pending.data.len() > REPLY_BYTES_MAX {
            return Err(EventTooLarge);
        }
        Ok(events)
    }

    /// Ends the stream: returns the last event of a server that forgot the blank line after it.
    pub(crate) fn finish(mut self) -> Option<SseEvent> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events);
        }
        self.dispatch(&mut events);
        events.pop()
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let text = if self.started { &text } else { text.trim_start_matches('\u{feff}') };
        self.started = true;
        if text.is_empty() {
            self.dispatch(events);
            return;
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.pending.data.push('\n');
                }
                self.pending.data.push_str(value);
                self.has_data = true;
            }
            "event" => self.pending.event = value.to_string(),
            // Comments (an empty field), ids and reconnection times mean nothing here.
            _ => {}
        }
    }

    fn dispatch(&mut self, events: &mut Vec<SseEvent>) {
        let event = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.has_data) {
            events.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\u{feff}: hello\nevent: a\ndata: {\"x\": \"süß 🦀\"}\n\ndata: one\r\ndata:two\r\n\r\nid: 7\rdata\r\rdata: last";

    fn decode(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(decoder.feed(&piece).unwrap());
        }
        events.extend(decoder.finish());
        events
    }

    #[test]
    fn bytes_cut_anywhere_give_the_same_events() {
        let event = |event: &str, data: &str| SseEvent { event: event.into(), data: data.into() };
        let expected = [event("a", "{\"x\": \"süß 🦀\"}"), event("", "one\ntwo"), event("", ""), event("", "last")];
        for size in 1..STREAM.len() {
            assert_eq!(decode(STREAM.as_bytes().chunks(size).map(<[u8]>::to_vec)), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut decoder = SseDecoder::default();
        let piece = vec![b'a'; 1024 * 1024];
        let refused = (0..20).map(|_| decoder.feed(&piece)).find(Result::is_err);
        assert_eq!(refused, Some(Err(EventTooLarge)));
    }
}
