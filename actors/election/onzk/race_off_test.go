//go:build !race

package onzk_test

const racing = false
