// Package actorstest runs a service's members in its tests: whole clusters in one process, on an
// embedded Consul, in virtual time when the test is in a testing/synctest bubble (and then a
// take-over of 20 s takes none).
//
//	func TestEveryDeviceIsPolledByOneMember(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			c := actorstest.New(t)
//			c.AddWork("device_1", "device_2")
//			a := c.Start("a", poll) // poll is the service's work function
//			c.Start("b", poll)
//			c.Await(10*time.Second, "both to run", func() bool { return len(c.Workers()) == 2 })
//			a.Lose() // as a machine that burns
//			c.Await(30*time.Second, "b to have both", func() bool {
//				w := c.Workers()
//				return w["device_1"] == "b" && w["device_2"] == "b"
//			})
//		})
//	}
//
// What holds:
//
//  1. The test fails when two members work on one item at once, or when an item's token falls, or
//     does not rise from one member to another. So it tests the service's function as well: one
//     that goes on after its context has ended is found out.
//  2. All that was started is stopped at the end of the test, members before Consul; one that does
//     not stop cleanly (but for those that were lost or cut off) fails the test. With
//     goleak.VerifyTestMain, or in a bubble, nothing can be left behind.
//  3. Each member is a host of its own: nothing is known of it but what Consul says.
//  4. Client reaches the embedded Consul without a socket; packages election/onconsul and
//     configstore, and any other user of Consul's own library, can be given it.
//  5. [Cluster.Elections] and [ZooKeeper] are elections on an embedded store. The test fails when
//     two duties are under way at once, or when a token falls.
//  6. [Cluster.Dial] connects to what [Cluster.Serve] serves, without a socket: a dispatcher can be
//     given it.
//  7. A wait in vain, and a stop that takes too long, name what is in the way.
//
// What is not here: processes. That is what `coordd dev --consul-only` and `coordd run` are for.
package actorstest
