//go:build !unix

package wal

const cautious = 0

func isLink(error) bool { return false }

func checkDir(string) error { return nil }
