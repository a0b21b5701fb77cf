//! Fixed-width little-endian numbers. Callers check lengths.

macro_rules! read_at {
    ($($name:ident: $type:ty),*) => { $(
        pub(crate) fn $name(bytes: &[u8], at: usize) -> $type {
            let mut raw = [0; size_of::<$type>()];
            raw.copy_from_slice(&bytes[at..at + size_of::<$type>()]);
            <$type>::from_le_bytes(raw)
        }
    )* };
}

read_at!(u16_at: u16, u32_at: u32, u64_at: u64, i32_at: i32, i64_at: i64);

/// Appends numbers to a buffer.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Starts a file of version 1.
    pub(crate) fn with_lead(magic: &[u8; 8], bytes: usize) -> Self {
        Self::with_version(magic, 1, bytes)
    }

    pub(crate) fn with_version(magic: &[u8; 8], version: u32, bytes: usize) -> Self {
        let mut writer = Self(Vec::with_capacity(bytes));
        writer.0.extend_from_slice(magic);
        writer.u32(version)
    }

    pub(crate) fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i64(mut self, value: i64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Pads with zeros up to `bytes`.
    pub(crate) fn zeros_to(mut self, bytes: usize) -> Self {
        self.0.resize(bytes, 0);
        self
    }

    /// Appends the CRC-32C of everything before.
    pub(crate) fn sealed(self) -> Vec<u8> {
        let crc = crc32c::crc32c(&self.0);
        self.u32(crc).0
    }
}
