package protocol

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/coordd/coordd/internal/proc"
)

// Process identifies one run of a member's process, well enough for another
// process of the same host to tell whether it still exists.
type Process struct {
	Instance     string `json:"instance,omitempty"` // random for each run of a member
	Host         string `json:"host,omitempty"`
	BootID       string `json:"boot,omitempty"`
	PIDNamespace string `json:"pidns,omitempty"`
	PID          int    `json:"pid,omitempty"`
	StartTime    uint64 `json:"start,omitempty"` // clock ticks since boot: /proc/PID/stat, field 22
	// Machine is the generation id that a hypervisor gives a virtual machine, where it can be read.
	// Machines that are resumed from one snapshot share the boot, and have different ones.
	Machine string `json:"machine,omitempty"`
	// TimeNamespace is that of the clock that StartTime was read from. Empty: of the reader's.
	TimeNamespace string `json:"timens,omitempty"`
	// Lock names what is held while commands may run that this process has started and that outlive
	// it: an open file, by device, inode and owner. NoLock: it starts none. Empty: nothing is known
	// of them.
	Lock string `json:"lock,omitempty"`
}

// NoLock is the Lock of a process whose work ends with it.
const NoLock = "none"

// Liveness says what is known of another process.
type Liveness int

const (
	Unknown Liveness = iota // another host or namespace, or too little is known
	Alive                   // it runs on this host
	Dead                    // it ran on this host and does not exist any more
)

func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// machineFiles are those with a machine's generation id. A search takes 0.1 s.
var machineFiles = sync.OnceValue(func() (files []string) {
	for _, pattern := range []string{"/sys/firmware/qemu_fw_cfg/by_name/etc/vmgenid_guid/raw",
		"/sys/devices/*/vmgenid", "/sys/devices/*/*/vmgenid", "/sys/devices/*/*/*/vmgenid"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	return files
})

// Self describes the calling process, from /proc. Fields that cannot be had
// stay empty, which makes the answer of others Unknown.
func Self(instance string) Process {
	p := Process{Instance: instance, PID: os.Getpid()}
	p.Host, _ = os.Hostname()
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		p.BootID = string(bytes.TrimSpace(boot))
	}
	for _, name := range machineFiles() {
		id, _ := os.ReadFile(name)
		p.Machine += hex.EncodeToString(id)
	}
	p.PIDNamespace, _ = os.Readlink("/proc/self/ns/pid")
	p.TimeNamespace, _ = os.Readlink("/proc/self/ns/time")
	// A /proc of another namespace shows another number: then nothing in it may
	// be believed.
	if stat, err := proc.Read("self"); err == nil && stat.PID == p.PID {
		p.StartTime = stat.Start
	}
	return p
}

// SameMachine tells whether p and o say that they run on one machine, in one pid namespace.
func (p Process) SameMachine(o Process) bool {
	return p.Host == o.Host && p.BootID == o.BootID && p.PIDNamespace == o.PIDNamespace &&
		p.Machine == o.Machine
}

// Liveness tells whether p still runs; of commands that outlive it, see Lock, it knows nothing. It
// says Dead only about a process of the same host, boot and pid namespace that the kernel says does
// not exist, or whose number was given to a process that started at another time: work is started
// on the strength of it. In another time namespace the same process started at another time.
func (p Process) Liveness() Liveness {
	self := Self("")
	if p.PID <= 0 || p.StartTime == 0 || p.BootID == "" || p.PIDNamespace == "" ||
		self.StartTime == 0 || !p.SameMachine(self) {
		return Unknown
	}
	stat, err := proc.Read(strconv.Itoa(p.PID))
	switch {
	case err == nil && stat.Gone:
		return Dead
	case err == nil && p.TimeNamespace != "" && p.TimeNamespace != self.TimeNamespace:
		return Unknown
	case err == nil && stat.Start != p.StartTime:
		return Dead
	case err == nil:
		return Alive
	case errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH):
		// Asked of the kernel, because /proc mounted with hidepid hides the
		// processes of other users.
		return Dead
	}
	return Unknown
}
