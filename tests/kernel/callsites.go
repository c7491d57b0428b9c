// Three call sites: 3 no-ops, 1 read of a closed descriptor and 2 sleeps per turn.
package main

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	setup = 425
	enter = 426
)

type Ring struct {
	fd      uintptr
	rings   []byte
	entries []byte
	offsets [30]uint32
}

func open() *Ring {
	r := &Ring{}
	fd, _, errno := syscall.Syscall(setup, 8, uintptr(unsafe.Pointer(&r.offsets)), 0)
	if errno != 0 {
		panic(errno)
	}
	r.fd = fd
	r.rings, _ = syscall.Mmap(int(fd), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	r.entries, _ = syscall.Mmap(int(fd), 0x10000000, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	return r
}

func (r *Ring) word(field int, i uint32) *uint32 {
	return (*uint32)(unsafe.Pointer(&r.rings[r.offsets[field]+4*i]))
}

var bytes [64]byte

func (r *Ring) next(opcode uint64, of int32) {
	tail := *r.word(11, 0)
	i := tail & 7
	entry := (*[8]uint64)(unsafe.Pointer(&r.entries[64*i]))
	*entry = [8]uint64{opcode | uint64(uint32(of))<<32, 0, uint64(uintptr(unsafe.Pointer(&bytes))), 1}
	*r.word(16, i) = i
	*r.word(20, 0) = *r.word(21, 0)
	*r.word(11, 0) = tail + 1
}

//go:noinline
func (r *Ring) submits() {
	r.next(0, -1)
	syscall.Syscall6(enter, r.fd, 1, 1, 1, 0, 0)
}

//go:noinline
func (r *Ring) fails() {
	r.next(22, 999)
	syscall.Syscall6(enter, r.fd, 1, 1, 1, 0, 0)
}

//go:noinline
func blocks() { syscall.Nanosleep(&syscall.Timespec{Nsec: 300000}, nil) }

//go:noinline
func naps() { syscall.Nanosleep(&syscall.Timespec{Nsec: 100000}, nil) }

func main() {
	turns := 1000
	if len(os.Args) > 1 {
		turns, _ = strconv.Atoi(os.Args[1])
	}
	r := open()
	for i := 0; i < turns; i++ {
		for j := 0; j < 3; j++ {
			r.submits()
		}
		r.fails()
		blocks()
		naps()
	}
}
