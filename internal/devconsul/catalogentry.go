package devconsul

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"
)

// checkNode is what is asked of a node before anything goes to the log.
func checkNode(name, id string) error {
	if name == "" {
		return errNoNode
	}
	if id == "" {
		return nil
	}
	var err error
	if len(id) != 36 {
		err = errors.New("uuid string is wrong length")
	} else if id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		err = errors.New("uuid is improperly formatted")
	} else {
		_, err = hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	}
	if err != nil {
		return fmt.Errorf("Bad node ID: %w", err)
	}
	return nil
}

// checkService is what is asked of a service before anything goes to the log.
func checkService(svc *api.AgentService) error {
	switch {
	case svc.Service == "" && svc.ID == "":
		return errors.New("service name (Service.Service) is required; both Service ID " +
			"(Service.ID) and Service Name cannot be empty")
	case svc.Service == "":
		return errors.New("Must provide service name (Service.Service) when service ID is provided")
	case anyAddress(svc.Address):
		return errors.New("Invalid service address")
	}
	return nil
}

func anyAddress(a string) bool { return a == "0.0.0.0" || a == "::" || a == "[::]" }

// serviceOf makes a service of what a client has sent.
func serviceOf(node string, in *api.AgentService) service {
	s := service{
		Node: node, ID: in.ID, Service: in.Service, Tags: in.Tags, Address: in.Address,
		Meta: in.Meta, Port: in.Port, Weights: weights(in.Weights),
		EnableTagOverride: in.EnableTagOverride,
	}
	for name, a := range in.TaggedAddresses {
		if s.TaggedAddresses == nil {
			s.TaggedAddresses = make(map[string]serviceAddress)
		}
		s.TaggedAddresses[name] = serviceAddress(a)
	}
	if s.ID == "" {
		s.ID = s.Service
	}
	if s.Weights == (weights{}) {
		s.Weights = weights{1, 1}
	}
	return s
}

// checkOf makes a check of what a client has sent.
func checkOf(in *api.HealthCheck) check {
	return check{
		Node: in.Node, CheckID: in.CheckID, Name: in.Name, Status: in.Status, Notes: in.Notes,
		Output: in.Output, ServiceID: in.ServiceID, ServiceName: in.ServiceName, Type: in.Type,
		Definition: definitionOf(&in.Definition),
	}
}

// checkDefinition says what somebody else's check does. It is kept and shown; nothing here runs it.
type checkDefinition struct {
	HTTP                           string              `json:",omitempty"`
	TLSServerName                  string              `json:",omitempty"`
	TLSSkipVerify                  bool                `json:",omitempty"`
	Header                         map[string][]string `json:",omitempty"`
	Method                         string              `json:",omitempty"`
	Body                           string              `json:",omitempty"`
	TCP                            string              `json:",omitempty"`
	TCPUseTLS                      bool                `json:",omitempty"`
	UDP                            string              `json:",omitempty"`
	OSService                      string              `json:",omitempty"`
	GRPC                           string              `json:",omitempty"`
	GRPCUseTLS                     bool                `json:",omitempty"`
	SessionName                    string              `json:",omitempty"`
	Interval                       string              `json:",omitempty"`
	Timeout                        string              `json:",omitempty"`
	DeregisterCriticalServiceAfter string              `json:",omitempty"`
}

func definitionOf(d *api.HealthCheckDefinition) checkDefinition {
	text := func(d api.ReadableDuration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return checkDefinition{
		HTTP: d.HTTP, TLSServerName: d.TLSServerName, TLSSkipVerify: d.TLSSkipVerify,
		Header: d.Header, Method: d.Method, Body: d.Body, TCP: d.TCP, TCPUseTLS: d.TCPUseTLS,
		UDP: d.UDP, OSService: d.OSService, GRPC: d.GRPC, GRPCUseTLS: d.GRPCUseTLS,
		SessionName: d.SessionName, Interval: text(d.Interval), Timeout: text(d.Timeout),
		DeregisterCriticalServiceAfter: text(d.DeregisterCriticalServiceAfter),
	}
}

// kind is the type of a check that was registered without one.
func (d *checkDefinition) kind() string {
	if d.Interval == "" {
		return ""
	}
	for _, k := range []struct{ field, kind string }{{d.GRPC, "grpc"}, {d.HTTP, "http"},
		{d.TCP, "tcp"}, {d.UDP, "udp"}, {d.OSService, "os_service"}} {
		if k.field != "" {
			return k.kind
		}
	}
	return ""
}
