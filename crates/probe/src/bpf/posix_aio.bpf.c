/* POSIX AIO is implemented in glibc, whose threads make ordinary system calls. The cookie of each uprobe identifies the
 * function. Programs that do not call these functions have no overhead.
 */

/* struct aiocb with 64-bit long. The last two members are internal to glibc, at the same offsets since 2.1. */
#define AIOCB_FILDES 0
#define AIOCB_LIO_OPCODE 4
#define AIOCB_NBYTES 24
#define AIOCB_ERROR_CODE 112
#define AIOCB_RETURN_VALUE 120

/* aio.h */
#define LIO_READ 0
#define LIO_WRITE 1

struct posix_call {
	__u64 at; /* address of the array of control blocks */
	__u64 time_ns;
	__u32 ring;
	__u32 tid;
};

static __noinline int posix_submitted(__u64 block, __u32 opcode, struct posix_call *call)
{
	struct aio_request request = {
		.submitted_ns = call->time_ns,
		.tid = call->tid,
		.opcode = opcode,
		.ended = 1, /* always posted by one of glibc's threads */
	};

	bpf_probe_read_user(&request.fd, sizeof(request.fd), (void *)(block + AIOCB_FILDES));
	if (opcode != POSIX_AIO_FSYNC)
		bpf_probe_read_user(&request.asked_bytes, sizeof(request.asked_bytes), (void *)(block + AIOCB_NBYTES));
	return aio_submitted(block, call->ring, &request, 0);
}

static int posix_list(__u32 i, struct posix_call *call)
{
	__u64 block;
	__u32 opcode;

	if (bpf_probe_read_user(&block, sizeof(block), (void *)(call->at + i * sizeof(block))))
		return 1;
	if (!block || bpf_probe_read_user(&opcode, sizeof(opcode), (void *)(block + AIOCB_LIO_OPCODE)))
		return 0;
	if (opcode == LIO_READ || opcode == LIO_WRITE)
		posix_submitted(block, opcode == LIO_READ ? POSIX_AIO_READ : POSIX_AIO_WRITE, call);
	return 0;
}

/* aio_return returns a result that is already in the control block. */
static __always_inline void posix_returns(__u64 block, __u32 ring)
{
	struct aio_key key = { .block = block, .ring = ring };
	__s32 error;
	__s64 result;

	if (bpf_probe_read_user(&error, sizeof(error), (void *)(block + AIOCB_ERROR_CODE)) ||
	    bpf_probe_read_user(&result, sizeof(result), (void *)(block + AIOCB_RETURN_VALUE)) || error == EINPROGRESS)
		return;
	/* Nothing is known about a request that was submitted before the trace or already returned. */
	if (bpf_map_lookup_elem(&aio_requests, &key))
		aio_reaped(block, ring, error ? -error : result);
}

__noinline int posix_aio_begins(__u64 address)
{
	struct ring_info info = { .interface = INTERFACE_POSIX_AIO };

	calls_needed = 1;
	return number_new(address, &info, false);
}

static __always_inline int posix_called(struct pt_regs *regs, __u64 function)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!counting || !adopted(task))
		return 0;
	struct posix_call call = { .time_ns = bpf_ktime_get_ns(), .tid = task->pid };
	__u64 address = task->tgid;
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, &address);
	if (known)
		call.ring = *known;
	else if (function != FUNCTION_AIO_RETURN)
		call.ring = posix_aio_begins(address);
	else
		return 0;
	switch (function) {
	case FUNCTION_AIO_READ:
		return posix_submitted(argument(regs, 1), POSIX_AIO_READ, &call);
	case FUNCTION_AIO_WRITE:
		return posix_submitted(argument(regs, 1), POSIX_AIO_WRITE, &call);
	case FUNCTION_AIO_FSYNC:
		return posix_submitted(argument(regs, 2), POSIX_AIO_FSYNC, &call);
	case FUNCTION_LIO_LISTIO:
		call.at = argument(regs, 2);
		bpf_loop((__u32)argument(regs, 3), posix_list, &call, 0);
		return 0;
	case FUNCTION_AIO_RETURN:
		posix_returns(argument(regs, 1), call.ring);
	}
	return 0;
}

/* All functions in one probe (6.6 and later): detaching separate probes takes the kernel 0.1 s each. */
SEC("uprobe.multi")
int posix_aio_called(struct pt_regs *regs)
{
	return posix_called(regs, bpf_get_attach_cookie(regs));
}

SEC("uprobe")
int posix_aio_called_each(struct pt_regs *regs)
{
	return posix_called(regs, bpf_get_attach_cookie(regs));
}
