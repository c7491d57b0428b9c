/* The file of a traced request, and the last component of its name, sent once per file. Untraced requests have no overhead.
 * The kernel looks up the file when it issues the request (io_assign_file), by descriptor or by index, and releases it only
 * after posting the completion (io_free_batch_list). The probe reads the file at completion, or earlier if the request may
 * never complete.
 */
#ifndef IOTRAIL_FILES_H
#define IOTRAIL_FILES_H

#include "follow.h"

const volatile struct file_name file_name_layout = {}; /* as trail_layout */

/* Files whose names were sent. After an eviction, the name is sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* 4096 if requests are traced */
	__type(key, struct file_key);
	__type(value, __u32);
} files_named SEC(".maps");

/* Each CPU's last files: most requests use a few files. */
#define FILES_NEAR 8 /* power of two: it masks an index */

struct files_near {
	struct file_key keys[FILES_NEAR];
};

struct files_near files_near[IOTRAIL_MAX_CPUS];

__noinline int name_file(__u32 index)
{
	struct trail *trail = trail_at(index);
	__u32 one = 1;

	if (!trail)
		return 0;
	struct file_key key = { .inode = trail->inode, .device = trail->device, .generation = trail->generation };
	if (bpf_map_lookup_elem(&files_named, &key))
		return 0;
	struct file_name *out = bpf_ringbuf_reserve(&trails_out, sizeof(*out), 0);
	/* The next request for this file retries. */
	if (!out)
		return 0;
	out->key = key;
	struct io_kiocb *request = (struct io_kiocb *)trail->request;
	struct file *file = TYPED_READ(request, file);
	struct dentry *dentry = TYPED_READ(file, f_path.dentry);
	if (bpf_probe_read_kernel_str(out->name, sizeof(out->name), TYPED_READ(dentry, d_name.name)) < 0)
		out->name[0] = 0;
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
	bpf_map_update_elem(&files_named, &key, &one, BPF_ANY);
	return 0;
}

/* The request still has a reference to it. */
__noinline int look_at_file(__u32 index)
{
	struct trail *trail = trail_at(index);

	/* A cancellation stores its target there. */
	if (!trail || trail->file & FILE_SEEN || trail->opcode == IORING_OP_ASYNC_CANCEL)
		return 0;
	struct io_kiocb *request = (struct io_kiocb *)trail->request;
	struct file *file = TYPED_READ(request, file);
	if (!file)
		return 0;
	struct inode *inode = TYPED_READ(file, f_inode);
	struct super_block *sb = TYPED_READ(inode, i_sb);
	__u32 type = TYPED_READ(inode, i_mode) & S_IFMT;
	trail->device = TYPED_READ(sb, s_dev);
	if (TYPED_READ(sb, s_magic) == ANON_INODE_FS_MAGIC) {
		struct dentry *dentry = TYPED_READ(file, f_path.dentry);
		bpf_probe_read_kernel(&trail->inode, sizeof(trail->inode), TYPED_READ(dentry, d_name.name));
		trail->file |= FILE_SEEN | FILE_ANONYMOUS;
		return 0;
	}
	trail->inode = TYPED_READ(inode, i_ino);
	trail->file |= FILE_SEEN | type;
	if (type == S_IFSOCK || type == S_IFIFO)
		return 0;
	trail->generation = TYPED_READ(inode, i_generation);
	if (!TYPED_READ(inode, i_nlink))
		trail->file |= FILE_DELETED;
	struct files_near *near = &files_near[bpf_get_smp_processor_id() & (IOTRAIL_MAX_CPUS - 1)];
	struct file_key *last = &near->keys[(trail->inode ^ trail->inode >> 3) & (FILES_NEAR - 1)];
	if (last->inode == trail->inode && last->device == trail->device && last->generation == trail->generation)
		return 0;
	name_file(index);
	last->inode = trail->inode;
	last->device = trail->device;
	last->generation = trail->generation;
	return 0;
}

/* The program's descriptor or index of the file, which the request keeps until it has a result. */
static __always_inline void file_named_by(struct io_kiocb *req, struct trail *trail)
{
	trail->fd = req->cqe.fd;
	if (req->flags & REQ_F_FIXED_FILE)
		trail->file = FILE_FIXED;
}

#endif
