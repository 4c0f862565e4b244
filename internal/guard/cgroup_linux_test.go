package guard

import "testing"

func TestTheOwnCgroupIsFoundWhereItIsMounted(t *testing.T) {
	const (
		host = "24 30 0:22 / /proc rw - proc proc rw\n31 30 0:27 / /sys/fs/cgroup rw,nosuid " +
			"shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid = "32 31 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n33 31 0:29 / " +
			"/sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		bound  = "31 30 0:27 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
		spaced = "31 30 0:27 / /a\\040b rw - cgroup2 cgroup rw\n"
	)
	for _, c := range []struct {
		mounts, path, dir string
		top               bool
	}{
		{host, "/system.slice/coordd.service", "/sys/fs/cgroup/system.slice/coordd.service", false},
		{host, "/", "/sys/fs/cgroup", true},
		{hybrid, "/", "/sys/fs/cgroup/unified", true},
		{hybrid, "/x", "/sys/fs/cgroup/unified/x", false},
		{bound, "/docker/abc", "/sys/fs/cgroup", true},
		{bound, "/docker/abc/x", "/sys/fs/cgroup/x", false},
		{bound, "/docker/abcdef", "", false},
		{spaced, "/x", "/a b/x", false},
		{host, "/../other", "", false},
		{"", "/", "", false},
		{"31 30 0:27 /\n", "/", "", false},
	} {
		dir, top, err := cgroupDir(c.mounts, c.path)
		if dir != c.dir || top != c.top || (err == nil) != (c.dir != "") {
			t.Errorf("%s in %q: %q, top %v, error %v; want %q, %v", c.path, c.mounts, dir, top, err,
				c.dir, c.top)
		}
	}
}
