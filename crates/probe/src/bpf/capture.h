/* Records of the programs in capture.bpf.c, one per event, from which `capture.rs` makes a recording for replay. Record
 * kinds differ in size.
 */
#ifndef IOTRAIL_CAPTURE_H
#define IOTRAIL_CAPTURE_H

/* Class of a captured system call, and the meaning of its arguments. User space fills the table of numbers. */
enum call_class {
	CALL_NONE = 0,
	CALL_ENTER,	/* io_uring_enter */
	CALL_SUBMIT,	/* io_submit */
	CALL_GETEVENTS, /* io_getevents, io_pgetevents */
	CALL_SETUP,	/* io_setup */
	CALL_READ,
	CALL_WRITE,
	CALL_FSYNC,
	CALL_FDATASYNC,
	CALL_SYNC_FILE_RANGE,
	CALL_FALLOCATE,
	CALL_CLASS = 15,
	CALL_VECTORED = 16,
	CALL_POSITIONED = 32,
	CALL_FLAGGED = 64, /* the sixth argument is RWF_… */
};

#define CAPTURED_CALLS 512 /* power of two: it masks a number */

#define OFFSET_OF_FILE (~0ull) /* the file's current position */

struct captured_request {
	__u64 ns;
	__u64 offset;
	__u32 tid;
	__u32 ring;
	__u32 head; /* CQ head; a context's is in its call */
	__u32 len;
	__u32 file; /* file number + 1; 0: none, or not a recorded kind */
	__u32 op_flags;
	__u16 buffer;
	__u8 opcode;
	__u8 sqe_flags;
	__u8 refused;
	__u8 pad[3];
};

struct captured_call {
	__u64 entered_ns;
	__u64 left_ns;
	__u64 think_ns; /* includes the probes' own time */
	__u32 tid;
	__u32 ring;
	__u32 head;
	__u32 to_submit;
	__u32 min_complete;
	__u32 flags; /* for a context: events in its ring; 0 if the head is unknown */
	__s32 result;
	enum call_class class;
	__u64 has_heads;    /* the ring has had a linked request */
	__u64 heads_reaped; /* completions before the head that belong to requests with a linked successor */
};

struct captured_sync {
	__u64 entered_ns;
	__u64 left_ns;
	__u64 think_ns;
	__u64 offset;
	__u64 len;
	__s64 result;
	__u32 tid;
	__u32 file; /* file number + 1 */
	__u32 op_flags;
	enum call_class class;
};

struct captured_ring {
	__u32 ring;
	__u32 aio; /* a native aio context */
	__u32 sq_entries;
	__u32 cq_entries;
	__u32 flags;
	__u32 head;	 /* CQ head at the first event */
	__u32 submitted; /* number of requests at that time */
};

#define PATH_BYTES 4096 /* power of two: it masks an index */
#define NAME_BYTES 256

struct captured_file {
	__u32 file; /* file number + 1 */
	__u32 mode;
	__u32 flags;
	__u32 links;
	__u64 size;
	__u64 magic;
	__u32 bytes;
	char path[PATH_BYTES + NAME_BYTES]; /* path components from last to first, each with its NUL */
};

#endif
