/* Reads the kernel's data of a request and its ring that no typed argument provides. */
#ifndef IOTRAIL_REQUEST_H
#define IOTRAIL_REQUEST_H

#include "follow.h"

static __always_inline __u32 opcode_of(void *request)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_core_cast(request, struct io_kiocb)->opcode;
	return BPF_CORE_READ((struct io_kiocb *)request, opcode);
}

static __always_inline __u32 length_of(void *request)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_core_cast(request, struct io_rw)->len;
	return BPF_CORE_READ((struct io_rw *)request, len);
}

/* Destination address of a read. */
static __always_inline __u64 buffer_of(void *request)
{
	return BPF_CORE_READ((struct io_rw *)request, addr);
}

static __always_inline bool plain_length(__u32 opcode)
{
	return opcode == IORING_OP_READ || opcode == IORING_OP_WRITE || opcode == IORING_OP_READ_FIXED ||
	       opcode == IORING_OP_WRITE_FIXED;
}

static __always_inline bool has_offset(__u32 opcode)
{
	return plain_length(opcode) || opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV;
}

/* File offset of an operation whose kiocb is the request's first member. */
static __always_inline __s64 offset_of(void *request)
{
	return BPF_CORE_READ((struct kiocb *)request, ki_pos);
}

/* The request consumes the next provided buffer. Its length becomes that buffer's (io_rw.len), so the number of bytes that
 * the program expects is unknown.
 */
static __always_inline bool takes_a_buffer(void *request)
{
	return BPF_CORE_READ((struct io_kiocb *)request, flags) & REQ_F_BUFFER_SELECT;
}

static __always_inline bool plain_send(__u32 opcode)
{
	return opcode == IORING_OP_SEND || opcode == IORING_OP_SEND_ZC;
}

/* Bytes of a send; 0 if its length is that of provided buffers, or a number of vectors. */
static __always_inline __u32 to_send(void *request)
{
	struct io_sr_msg *send = request;
	__u32 length, many = IORING_RECVSEND_BUNDLE | IORING_SEND_VECTORIZED;

	if (takes_a_buffer(request))
		return 0;
	if (bpf_core_field_exists(send->flags) && (BPF_CORE_READ(send, flags) & many))
		return 0;
	length = BPF_CORE_READ(send, len);
	if (bpf_core_field_exists(send->done_io))
		length += BPF_CORE_READ(send, done_io);
	return length;
}

static __always_inline __u32 poll_events_of(void *request)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_core_cast(request, struct io_poll)->events;
	return BPF_CORE_READ((struct io_poll *)request, events);
}

static __always_inline __u64 flags_of(void *request)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_core_cast(request, struct io_kiocb)->flags;
	return BPF_CORE_READ((struct io_kiocb *)request, flags);
}

/* `typed`: the verifier knows the type of `ring`. */
static __always_inline __u32 setup_flags_of(struct io_ring_ctx *ring, bool typed)
{
	if (typed)
		return ring->flags;
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_core_cast(ring, struct io_ring_ctx)->flags;
	return BPF_CORE_READ(ring, flags);
}

static __always_inline bool is_zero_copy_send(__u32 opcode)
{
	return opcode == IORING_OP_SEND_ZC || opcode == IORING_OP_SENDMSG_ZC;
}

/* The kernel marks a socket request as multishot only when it starts to wait. */
static __always_inline bool is_multishot_command(void *request)
{
	struct io_uring_cmd *command = request;

	return (BPF_CORE_READ(command, flags) & IORING_URING_CMD_MULTISHOT) ||
	       BPF_CORE_READ(command, cmd_op) == SOCKET_URING_OP_TX_TIMESTAMP;
}

/* Whether the request may post completions that carry only its user data. */
static __always_inline bool posts_many(void *request, __u32 opcode)
{
	return (flags_of(request) & multishot_flags) || opcode == IORING_OP_TIMEOUT ||
	       ((opcode == IORING_OP_URING_CMD || opcode == IORING_OP_URING_CMD128) && is_multishot_command(request)) ||
	       (opcode == IORING_OP_POLL_ADD && !(poll_events_of(request) & EPOLLONESHOT));
}

#endif
