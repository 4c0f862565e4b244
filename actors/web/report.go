package web

import (
	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/supervisor"
)

// wholeReport is the process's tree with the trees of its members, which have roots of their own,
// put in.
func (s *site) wholeReport() supervisor.Report {
	if s.Report == nil {
		if len(s.Members) == 1 {
			return s.Members[0].Report()
		}
		var all supervisor.Report
		for _, m := range s.Members {
			all.Children = append(all.Children, m.Report())
		}
		return all
	}
	trees := map[string]*actors.Coordinator{}
	for _, m := range s.Members {
		trees[m.ID()] = m
	}
	if len(s.Members) == 1 {
		trees[soleMember] = s.Members[0]
	}
	root := s.Report()
	var graft func(r *supervisor.Report)
	graft = func(r *supervisor.Report) {
		for i := range r.Children {
			child := &r.Children[i]
			if m := trees[child.Name]; m != nil {
				inner := m.Report()
				child.Strategy, child.Children = inner.Strategy, inner.Children
				continue
			}
			graft(child)
		}
	}
	graft(&root)
	return root
}

// soleMember is what a process calls the child that is its only member, if not by the member's id.
const soleMember = "coordinator"
