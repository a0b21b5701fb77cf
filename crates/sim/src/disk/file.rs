//! A file's content: its current state, its durable state, and the writes between the two.

/// A change that is not durable yet.
#[derive(Clone, Debug)]
pub(super) enum FileOp {
    Write { position: usize, data: Vec<u8> },
    SetLen(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) current: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<FileOp>,
    /// Bytes with reserved blocks. May be more than the length.
    pub(super) reserved: u64,
}

impl Inode {
    pub(super) fn write(&mut self, position: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let op = FileOp::Write { position: position as usize, data: data.to_vec() };
        apply(&mut self.current, &op);
        self.pending.push(op);
        self.reserved = self.reserved.max(self.current.len() as u64);
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        let op = FileOp::SetLen(bytes as usize);
        apply(&mut self.current, &op);
        self.pending.push(op);
        self.reserved = bytes;
    }

    pub(super) fn sync(&mut self) {
        for op in self.pending.drain(..) {
            apply(&mut self.durable, &op);
        }
    }

    /// Returns the range `start..end` after the first `count` pending changes, with zeros where there is no
    /// data.
    pub(super) fn range_after(&self, count: usize, start: usize, end: usize) -> Vec<u8> {
        let mut range = vec![0; end - start];
        let mut copy = |position: usize, data: &[u8]| {
            let from = position.max(start);
            let to = (position + data.len()).min(end);
            if from < to {
                range[from - start..to - start].copy_from_slice(&data[from - position..to - position]);
            }
        };
        copy(0, &self.durable);
        for op in &self.pending[..count] {
            match op {
                FileOp::Write { position, data } => copy(*position, data),
                FileOp::SetLen(bytes) if *bytes < end => {
                    let from = (*bytes).max(start);
                    copy(from, &vec![0; end - from]);
                }
                FileOp::SetLen(_) => {}
            }
        }
        range
    }

    /// Returns the length after the first `count` pending changes.
    pub(super) fn len_after(&self, count: usize) -> usize {
        self.pending[..count].iter().fold(self.durable.len(), |len, op| match op {
            FileOp::Write { position, data } => len.max(position + data.len()),
            FileOp::SetLen(bytes) => *bytes,
        })
    }
}

fn apply(content: &mut Vec<u8>, op: &FileOp) {
    match op {
        FileOp::Write { position, data } => {
            let end = position + data.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*position..end].copy_from_slice(data);
        }
        FileOp::SetLen(bytes) => content.resize(*bytes, 0),
    }
}
