//! Amazon's event stream (`application/vnd.amazon.eventstream`): binary frames out of bytes that are cut anywhere.

use super::parse::REPLY_BYTES_MAX;

/// The lengths and their checksum.
const PRELUDE_BYTES: usize = 12;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// Headers that are texts, by name.
    pub(crate) headers: Vec<(String, String)>,
    /// The payload.
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The text header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Why bytes are no event stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A frame over 16 MiB.
    TooLarge,
    /// Lengths, checksums or headers that cannot be.
    Malformed(&'static str),
}

/// Collects bytes until they make frames.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    bytes: Vec<u8>,
}

impl FrameDecoder {
    /// Takes the next bytes and returns the frames that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, Broken> {
        self.bytes.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| rest.len() >= PRELUDE_BYTES) {
            let total = number(rest, 0) as usize;
            if total > REPLY_BYTES_MAX {
                return Err(Broken::TooLarge);
            }
            if number(rest, 8) != crc32(&rest[..8]) || total < PRELUDE_BYTES + 4 {
                return Err(Broken::Malformed("a frame's head is damaged"));
            }
            let Some(frame) = rest.get(..total) else { break };
            frames.push(read_frame(frame)?);
            at += total;
        }
        self.bytes.drain(..at);
        Ok(frames)
    }

    /// Whether a frame has begun and not ended.
    pub(crate) fn is_inside(&self) -> bool {
        !self.bytes.is_empty()
    }
}

fn read_frame(frame: &[u8]) -> Result<Frame, Broken> {
    let damaged = Broken::Malformed("a frame is damaged");
    let end = frame.len() - 4;
    if number(frame, end) != crc32(&frame[..end]) {
        return Err(damaged);
    }
    let headers_end = PRELUDE_BYTES + number(frame, 4) as usize;
    let (Some(headers), Some(payload)) = (frame.get(PRELUDE_BYTES..headers_end), frame.get(headers_end..end)) else {
        return Err(damaged);
    };
    Ok(Frame { headers: read_headers(headers).ok_or(damaged)?, payload: payload.to_vec() })
}

/// Reads name (its length in one byte), kind, value; kinds other than text are passed over.
fn read_headers(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        let (&kind, rest) = rest.split_first()?;
        let (value, rest) = match kind {
            0 | 1 => rest.split_at_checked(0)?,
            2 => rest.split_at_checked(1)?,
            3 => rest.split_at_checked(2)?,
            4 => rest.split_at_checked(4)?,
            5 | 8 => rest.split_at_checked(8)?,
            9 => rest.split_at_checked(16)?,
            6 | 7 => {
                let (length, rest) = rest.split_at_checked(2)?;
                rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))?
            }
            _ => return None,
        };
        if kind == 7 {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            headers.push((text(name), text(value)));
        }
        bytes = rest;
    }
    Some(headers)
}

/// The big-endian number at `at`; 0 beyond the end.
fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok());
    four.map_or(0, u32::from_be_bytes)
}

/// CRC-32 as in zip and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::test_support::event_frame;

    #[test]
    fn bytes_cut_anywhere_give_the_same_frames() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let mut stream = event_frame(&[(":message-type", "event"), (":event-type", "messageStart")], b"{\"a\":1}");
        stream.extend(event_frame(&[(":event-type", "messageStop")], b""));
        for size in 1..stream.len() {
            let mut decoder = FrameDecoder::default();
            let frames: Vec<Frame> = stream.chunks(size).flat_map(|piece| decoder.feed(piece).unwrap()).collect();
            assert_eq!(frames.len(), 2, "in pieces of {size}");
            assert_eq!(
                (frames[0].header(":event-type"), &frames[0].payload[..]),
                (Some("messageStart"), &b"{\"a\":1}"[..])
            );
            assert!(!decoder.is_inside());
        }
    }

    #[test]
    fn damage_is_found_and_never_panics() {
        let good = event_frame(&[(":event-type", "x")], b"{}");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            let fed = FrameDecoder::default().feed(&bad);
            assert!(!matches!(fed, Ok(frames) if !frames.is_empty()), "byte {at}");
        }
        let mut long = vec![0x7f; PRELUDE_BYTES];
        long[0] = 0x02;
        assert_eq!(FrameDecoder::default().feed(&long), Err(Broken::TooLarge));
    }
}
