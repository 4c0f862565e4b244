package main

import (
	"errors"
	"strconv"
	"strings"
)

// moveBudget is the value of --move-budget: a number of items, or a share of them.
type moveBudget struct {
	items int     // 0: only the share holds
	share float64 // 0: none
}

func (b *moveBudget) String() string {
	if b.share > 0 {
		return strconv.FormatFloat(b.share*100, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(b.items)
}

func (b *moveBudget) Type() string { return "items" }

func (b *moveBudget) Set(text string) error {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(share > 0 && share <= 100) {
			return errors.New("give a share above 0% and up to 100%")
		}
		*b = moveBudget{share: share / 100}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("give 1 item or more, or a share such as 5%")
	}
	*b = moveBudget{items: n}
	return nil
}
