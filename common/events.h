/*
 * events: the MESSAGE_ID of each event for which an operator may want an alert. The manual pages farpage-memserver(8)
 * and farpage-blockdev(8) list them. An event keeps its ID when its text changes.
 */
#ifndef COMMON_EVENTS_H
#define COMMON_EVENTS_H

/* Donor: it lends memory from now on */
#define EVENT_DONOR_STARTED "5a26f32556da4dcc989ccd835c125a64"
/* Donor: an operator drains it */
#define EVENT_DONOR_DRAINING "d8e2b0e5e7dd456898f3fe232589911b"
/* Donor: it is drained, and nothing is leased any more */
#define EVENT_DONOR_DRAINED "de86b30fc92c43c88c75bb04a14013fe"
/* Donor: an operator has ended the drain */
#define EVENT_DONOR_LENDING "c80e4a9dfed84002b0ee14bda2e3259e"
/* Donor: a slab was taken from a client by force */
#define EVENT_SLAB_TAKEN "25f81b9aaa1f447abb466c65ad4c22c9"
/* Donor: a client has vanished */
#define EVENT_CLIENT_LOST "ececca7227aa46c2aa3e4e80de9736b2"
/* Donor: an upgrade has succeeded */
#define EVENT_UPGRADED "c238c54e6835420681321711527b97dd"
/* Donor: an upgrade has failed */
#define EVENT_NOT_UPGRADED "80faf39b4eb242019be3984f3cb45d57"
/* Client: a donor does not answer */
#define EVENT_DONOR_AWAY "de0e8c404ed648ca8294297bf82ed617"
/* Client: a donor answers again */
#define EVENT_DONOR_BACK "e16f990a5e16452da815d9f7d45f5a38"
/* Client: a donor is given up, and its pages have other copies */
#define EVENT_DONOR_LOST "a9e5b1b671e74357bed0d6a959b98bd7"
/* Client, device: data is lost */
#define EVENT_DATA_LOST "0fd577e9f08e4ed7917204ae38a716a0"
/* Device: redundancy or a donor is lacking */
#define EVENT_DEVICE_DEGRADED "6075e91995f34863af9ed7157efdbba5"
/* Device: it does not serve requests */
#define EVENT_DEVICE_FAILED "95b191ad863e4f31acedb5a78fb35574"
/* Device: requests have failed; their programs got I/O errors */
#define EVENT_REQUESTS_FAILED "bd296ce739ba463f92dd8a606c769372"
/* Device: nothing is lacking any more */
#define EVENT_DEVICE_WHOLE "ca9502b26d304f24932b61b76ef5cd2e"

#endif
