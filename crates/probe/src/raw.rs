//! Reads the programs' records from raw bytes.

/// Reads a record in the programs' layout.
pub fn read<T: Copy>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "a record is shorter than record.h says");
    // SAFETY: the bytes are a complete T, written by the programs with the layout from which T was generated. All
    // fields are integers, for which every bit pattern is valid.
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}

/// Reads a number that programs may be writing. A slightly old value is acceptable.
pub fn peek<T: Copy>(at: &T) -> T {
    // SAFETY: the reference is live and aligned. Only integers are read this way, so a torn read is just a wrong
    // number.
    unsafe { std::ptr::read_volatile(at) }
}

/// A comm as text, up to the first zero byte.
pub fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|b| *b as u8).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
