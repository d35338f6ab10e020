package redisresp_test

import (
	"fmt"

	"github.com/sluiceproxy/sluice/redisresp"
)

// A command is an array of bulk strings.
func Example() {
	command := redisresp.AppendArray(nil, 3)
	command = redisresp.AppendBulkString(command, "SET")
	command = redisresp.AppendBulk(command, []byte("greeting"))
	command = redisresp.AppendBulkInt(command, 42)
	fmt.Printf("%q\n", command)
	// Output: "*3\r\n$3\r\nSET\r\n$8\r\ngreeting\r\n$2\r\n42\r\n"
}

// A connection delivers bytes, which end anywhere. Decode is given what has come,
// says whether that begins with a whole reply, and how long it is.
func ExampleDecoder_Decode() {
	decoder := redisresp.NewDecoder(redisresp.Limits{})
	var came []byte
	for _, part := range []string{"*2\r\n:7\r", "\n$2\r\nhi\r\n-ERR no", " such key\r\n"} {
		came = append(came, part...)
		for {
			reply, n, outcome := decoder.Decode(came)
			if outcome != redisresp.Complete {
				fmt.Println(outcome)
				break
			}
			fmt.Println("reply of", n, "bytes")
			for it := reply.Iter(); it.Next(); {
				if element := it.Reply(); element.Kind == redisresp.Integer {
					fmt.Println("  integer", element.Int)
				} else {
					fmt.Printf("  text %q\n", element.Bytes)
				}
			}
			if reply.Kind == redisresp.Error {
				fmt.Printf("  error %s: %s\n", reply.ErrorPrefix(), reply.Bytes)
			}
			came = came[n:] // reply borrows these bytes: it is good until here
		}
	}
	// Output:
	// incomplete
	// reply of 16 bytes
	//   integer 7
	//   text "hi"
	// incomplete
	// reply of 18 bytes
	//   error ERR: ERR no such key
	// incomplete
}
