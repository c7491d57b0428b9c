/* Files by their descriptors. */
#ifndef IOTRAIL_DESCRIPTOR_H
#define IOTRAIL_DESCRIPTOR_H

static __always_inline struct file *file_at(struct task_struct *task, __u32 fd)
{
	struct files_struct *files = TYPED_READ(task, files);
	struct fdtable *table = TYPED_READ(files, fdt);
	struct file *file = NULL;

	if (fd < TYPED_READ(table, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), TYPED_READ(table, fd) + fd);
	return file;
}

#endif
