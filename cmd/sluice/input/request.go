package input

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
)

// Request is a request as flags describe it.
type Request struct {
	headers, properties []string
	clientIP, metadata  string
}

// Flags adds the flags that describe a request.
func (r *Request) Flags(command *cobra.Command) {
	f := command.Flags()
	f.StringArrayVarP(&r.headers, "header", "H", nil, "a header of the request, 'name: value'")
	f.StringVar(&r.clientIP, "client-ip", "", "the client's address, as Envoy finds it")
	f.StringArrayVar(&r.properties, "property", nil, "an attribute of Envoy, path.with.dots=value")
	f.StringVar(&r.metadata, "metadata", "", "dynamic metadata, a JSON object by filters' names")
}

// Make makes the request; args are its method, GET if that is left out, and its URL.
func (r *Request) Make(args []string) (*explain.Request, error) {
	method := "GET"
	if len(args) == 2 {
		method = args[0]
	}
	req, err := explain.NewRequest(method, args[len(args)-1])
	if err != nil {
		return nil, err
	}
	for _, header := range r.headers {
		err = cmp.Or(err, req.AddHeader(header))
	}
	for _, property := range r.properties {
		err = cmp.Or(err, req.SetProperty(property))
	}
	if r.clientIP != "" {
		err = cmp.Or(err, req.SetClientIP(r.clientIP))
	}
	if r.metadata != "" {
		err = cmp.Or(err, req.SetMetadata(r.metadata))
	}
	return req, err
}
