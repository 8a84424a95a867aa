//! Counts the records of application data in one direction of a TLS stream.

const HEADER: usize = 5;
const APPLICATION_DATA: u8 = 23;

#[derive(Debug, Default)]
pub(super) struct TlsRecords {
    header: Vec<u8>,
    /// Bytes of the current record that are still to come.
    left: usize,
    application: usize,
}

impl TlsRecords {
    /// Records of application data begun so far.
    pub(super) fn application(&self) -> usize {
        self.application
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skip = self.left.min(bytes.len());
            self.left -= skip;
            bytes = &bytes[skip..];
            let wanted = HEADER - self.header.len();
            let taken = wanted.min(bytes.len());
            self.header.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let [kind, _, _, high, low] = self.header[..] {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.application += usize::from(kind == APPLICATION_DATA);
                self.header.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: [u8; 19] = [22, 3, 3, 0, 2, 9, 9, 23, 3, 3, 0, 0, 23, 3, 3, 0, 2, 23, 23];

    #[test]
    fn counts_only_application_data() {
        check(STREAM.len());
    }

    #[test]
    fn headers_may_be_torn() {
        (1..STREAM.len()).for_each(check);
    }

    #[track_caller]
    fn check(chunk: usize) {
        let mut records = TlsRecords::default();
        STREAM.chunks(chunk).for_each(|bytes| records.feed(bytes));
        assert_eq!(records.application(), 2, "in chunks of {chunk}");
    }
}
