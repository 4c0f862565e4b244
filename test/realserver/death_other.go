//go:build unix && !linux

package realserver

func stopped(int) bool { return true }
