//! Records as raw bytes of the programs.

/// A record in the programs' layout.
pub fn read<T: Copy>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "a record is shorter than record.h says");
    // SAFETY: the bytes are a whole T, written by the programs with the layout that T was generated from; all of its
    // fields are integers, for which every bit pattern is valid.
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}

/// A number that programs may be writing: a slightly old value is acceptable.
pub fn peek<T: Copy>(at: &T) -> T {
    // SAFETY: live and aligned; all that is read so is of integers, so that what is torn is only a wrong number.
    unsafe { std::ptr::read_volatile(at) }
}

/// A comm up to its first zero byte.
pub fn text(bytes: &[i8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|b| *b as u8).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
