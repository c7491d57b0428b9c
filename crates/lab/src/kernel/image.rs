//! Extracts the kernel from a compressed image. An emulated machine boots it 3 to 4 s faster than the self-extracting
//! image.

use std::io::Read;

/// Returns an ELF `vmlinux` unmodified, or extracts it from a `bzImage` (Documentation/arch/x86/boot.rst). arm64's
/// `Image` boots unmodified (Documentation/arch/arm64/booting.rst).
///
/// Errors: the image's problem as text.
pub fn vmlinux(image: Vec<u8>) -> Result<Vec<u8>, String> {
    if image.starts_with(ELF) || is_arm64(&image) {
        return Ok(image);
    }
    if image.starts_with(GZIP) {
        let kernel = unpack(&image, 0)?;
        return if is_arm64(&kernel) { Ok(kernel) } else { Err("its payload is not an arm64 kernel".into()) };
    }
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Err("it is neither a bzImage nor an ELF kernel".into());
    }
    let number = |at: usize, size: usize| {
        let bytes = image.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)))
    };
    // Protocol 2.08 (Linux 2.6.26) or later contains the position of the compressed kernel.
    let place = || {
        let (version, sectors) = (number(0x206, 2)?, number(0x1f1, 1)?);
        // The protocol defines 0 as 4.
        let start = (if sectors == 0 { 4 } else { sectors } + 1) * 512 + number(0x248, 4)?;
        image.get(start..start.checked_add(number(0x24c, 4)?)?).filter(|p| version >= 0x208 && p.len() > 4)
    };
    let payload = place().ok_or("its compressed kernel is truncated")?;
    // The kernel build appends the uncompressed length. All formats except gzip also contain it.
    let (packed, length) = payload.split_at(payload.len() - 4);
    let length = length.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    let whole = if packed.starts_with(GZIP) { payload } else { packed };
    let kernel = unpack(whole, length)?;
    if kernel.starts_with(ELF) { Ok(kernel) } else { Err("its payload is not an ELF kernel".into()) }
}

fn is_arm64(image: &[u8]) -> bool {
    image.get(56..60) == Some(b"ARM\x64")
}

const ELF: &[u8] = b"\x7fELF";
const GZIP: &[u8] = b"\x1f\x8b";
const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Decompresses gzip, xz or zstd. Allocates `expected` bytes, and decompresses no more.
pub fn unpack(packed: &[u8], expected: usize) -> Result<Vec<u8>, String> {
    let mut reader: Box<dyn Read + '_> = match packed {
        p if p.starts_with(XZ) => Box::new(lzma_rust2::XzReader::new(p, false)),
        p if p.starts_with(GZIP) => Box::new(flate2::read::GzDecoder::new(p)),
        p if p.starts_with(ZSTD) => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(p)
                .map_err(|e| format!("cannot decompress its zstd data: {e}"))?;
            Box::new(decoder)
        }
        _ => return Err("its compression format is not supported (xz, zstd and gzip are)".into()),
    };
    // A limit that only damaged images exceed.
    const MOST: usize = 1 << 30;
    let mut out = Vec::with_capacity(expected.min(MOST));
    reader.by_ref().take(MOST as u64).read_to_end(&mut out).map_err(|e| format!("cannot decompress it: {e}"))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const KERNEL: &[u8] = b"\x7fELF and the rest of a very small kernel";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn image(packed: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * 512 + 16];
        image[0x1f1] = 2;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        image.extend_from_slice(packed);
        image.extend_from_slice(b"what follows the payload");
        image
    }

    #[test]
    fn an_arm64_image_boots_unmodified() {
        let mut image = vec![0; 64];
        image[56..60].copy_from_slice(b"ARM\x64");
        assert_eq!(vmlinux(image.clone()).unwrap(), image);
        assert_eq!(vmlinux(gzip(&image)).unwrap(), image);
        assert!(vmlinux(gzip(b"something else")).unwrap_err().contains("not an arm64 kernel"));
    }

    #[test]
    fn a_kernel_is_extracted_from_its_bzimage() {
        assert_eq!(vmlinux(KERNEL.to_vec()).unwrap(), KERNEL);
        assert_eq!(vmlinux(image(&gzip(KERNEL))).unwrap(), KERNEL);
        // Created by `xz --check=crc32 --x86 --lzma2` and `zstd -19`, with the length that the kernel's build appends.
        for packed in [XZ_SAMPLE, ZSTD_SAMPLE] {
            let payload = [packed, &(KERNEL.len() as u32).to_le_bytes()].concat();
            assert_eq!(vmlinux(image(&payload)).unwrap(), KERNEL);
        }
    }

    #[test]
    fn a_file_that_is_not_a_kernel_image_is_rejected() {
        let told = |image: Vec<u8>| vmlinux(image).unwrap_err();
        assert_eq!(told(vec![0; 4096]), "it is neither a bzImage nor an ELF kernel");
        assert_eq!(told(Vec::new()), "it is neither a bzImage nor an ELF kernel");
        assert_eq!(told(image(&gzip(b"no kernel"))), "its payload is not an ELF kernel");
        assert!(told(image(b"LZO and then some")).contains("is not supported"));
        let mut cut = image(&gzip(KERNEL));
        cut.truncate(1560);
        assert_eq!(told(cut), "its compressed kernel is truncated");
    }

    const XZ_SAMPLE: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x01, 0x04, 0x00, 0x21, 0x01,
        0x00, 0x00, 0xda, 0x33, 0xad, 0x03, 0x01, 0x00, 0x27, 0x7f, 0x45, 0x4c, 0x46, 0x20, 0x61, 0x6e, 0x64, 0x20,
        0x74, 0x68, 0x65, 0x20, 0x72, 0x65, 0x73, 0x74, 0x20, 0x6f, 0x66, 0x20, 0x61, 0x20, 0x76, 0x65, 0x72, 0x79,
        0x20, 0x73, 0x6d, 0x61, 0x6c, 0x6c, 0x20, 0x6b, 0x65, 0x72, 0x6e, 0x65, 0x6c, 0x00, 0x45, 0x2b, 0x04, 0xd9,
        0x00, 0x01, 0x3c, 0x28, 0x2e, 0x64, 0xc0, 0x66, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01,
        0x59, 0x5a,
    ];
    const ZSTD_SAMPLE: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x41, 0x01, 0x00, 0x7f, 0x45, 0x4c, 0x46, 0x20, 0x61, 0x6e, 0x64, 0x20,
        0x74, 0x68, 0x65, 0x20, 0x72, 0x65, 0x73, 0x74, 0x20, 0x6f, 0x66, 0x20, 0x61, 0x20, 0x76, 0x65, 0x72, 0x79,
        0x20, 0x73, 0x6d, 0x61, 0x6c, 0x6c, 0x20, 0x6b, 0x65, 0x72, 0x6e, 0x65, 0x6c, 0xca, 0x23, 0x40, 0x49,
    ];
}
