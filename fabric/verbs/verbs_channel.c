/*
 * verbs_channel: a fabric's use of one device, see verbs.h. A channel has four poller sources. They report completions,
 * the device's asynchronous events, events of its keeper (verbs_device.h), and its removal. A channel stays open
 * without connections, so that the fabric notices the removal of the device. Then verbs.c ends the connections on the
 * device, and verbs_channels_sweep() closes the channel.
 */
#include "common/log.h"
#include "fabric/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static void completions_ready(struct poller_source *source, unsigned events)
{
	struct verbs_channel *channel =
	    (struct verbs_channel *)((char *)source - offsetof(struct verbs_channel, completions_source));

	(void)events;
	channel->completed = true;
	channel->verbs->completed = true;
}

static void async_ready(struct poller_source *source, unsigned events)
{
	struct verbs_channel *channel =
	    (struct verbs_channel *)((char *)source - offsetof(struct verbs_channel, async_source));

	(void)events;
	verbs_device_events(channel->device);
}

static void keeper_ready(struct poller_source *source, unsigned events)
{
	struct verbs_channel *channel =
	    (struct verbs_channel *)((char *)source - offsetof(struct verbs_channel, keeper_source));

	(void)events;
	verbs_device_keeper_events(channel->device);
}

static void lost_ready(struct poller_source *source, unsigned events)
{
	struct verbs_channel *channel =
	    (struct verbs_channel *)((char *)source - offsetof(struct verbs_channel, lost_source));

	(void)events;
	channel->verbs->lost = true;
}

void verbs_channel_arm(struct verbs_channel *channel)
{
	struct poller *poller = fabric_poller(channel->verbs->fabric);

	/* After a removal, these descriptors stay readable. If they were armed again, the fabric would never
	   sleep. */
	if (channel->device->gone)
		return;
	poller_arm(poller, &channel->completions_source, POLLER_IN);
	poller_arm(poller, &channel->async_source, POLLER_IN);
	poller_arm(poller, &channel->keeper_source, POLLER_IN);
	poller_arm(poller, &channel->lost_source, POLLER_IN);
}

static int channel_open(struct verbs *verbs, struct verbs_device *device, struct verbs_channel **ret_channel)
{
	struct verbs_channel *channel = calloc(1, sizeof *channel);
	int status = -ENOMEM;

	if (!channel)
		return status;
	channel->verbs = verbs;
	channel->device = device;
	channel->completions = ibv_create_comp_channel(device->context);
	if (!channel->completions) {
		status = errno ? -errno : -ENOMEM;
		goto free_channel;
	}
	channel->completions_source =
	    (struct poller_source){.fd = channel->completions->fd, .ready = completions_ready};
	channel->async_source = (struct poller_source){.fd = device->context->async_fd, .ready = async_ready};
	channel->keeper_source = (struct poller_source){.fd = device->keeper_events->fd, .ready = keeper_ready};
	channel->lost_source = (struct poller_source){.fd = device->lost, .ready = lost_ready};
	if (fcntl(channel->completions->fd, F_SETFL, O_NONBLOCK) < 0) {
		status = -errno;
		goto destroy_completions;
	}
	verbs_channel_arm(channel);
	TAILQ_INSERT_TAIL(&verbs->channels, channel, link);
	*ret_channel = channel;
	return 0;

destroy_completions:
	ibv_destroy_comp_channel(channel->completions);
free_channel:
	free(channel);
	return status;
}

/* The channel must have no connections. */
void verbs_channel_close(struct verbs_channel *channel)
{
	struct poller *poller = fabric_poller(channel->verbs->fabric);

	TAILQ_REMOVE(&channel->verbs->channels, channel, link);
	poller_remove(poller, &channel->completions_source);
	poller_remove(poller, &channel->async_source);
	poller_remove(poller, &channel->keeper_source);
	poller_remove(poller, &channel->lost_source);
	ibv_destroy_comp_channel(channel->completions);
	verbs_device_put(channel->device);
	free(channel);
}

int verbs_channel_get(struct verbs *verbs, struct rdma_cm_id *id, struct verbs_channel **ret_channel)
{
	struct verbs_channel *channel;
	struct verbs_device *device;
	int status;

	TAILQ_FOREACH(channel, &verbs->channels, link) {
		if (channel->device->context != id->verbs)
			continue;
		if (channel->device->gone)
			return -ENODEV;
		goto found;
	}
	status = verbs_device_get(id, &device);
	if (status < 0)
		return status;
	status = channel_open(verbs, device, &channel);
	if (status < 0) {
		verbs_device_put(device);
		return status;
	}
found:
	channel->conns++;
	*ret_channel = channel;
	return 0;
}

void verbs_channel_leave(struct verbs_channel *channel)
{
	channel->conns--;
	if (channel->device->gone)
		channel->verbs->lost = true;
}

void verbs_channels_poll(struct verbs *verbs)
{
	struct verbs_channel *channel;
	struct ibv_cq *cq;
	void *context;

	verbs->completed = false;
	TAILQ_FOREACH(channel, &verbs->channels, link) {
		if (!channel->completed)
			continue;
		channel->completed = false;
		while (ibv_get_cq_event(channel->completions, &cq, &context) == 0) {
			struct verbs_conn *conn = context;

			conn->cq_events++;
			conn->armed = false;
			verbs_activate(conn);
		}
		verbs_channel_arm(channel);
	}
}

void verbs_channels_sweep(struct verbs *verbs)
{
	struct verbs_channel *channel, *next;

	verbs->lost = false; /* verbs_channel_leave() sets it again if a connection leaves later */
	for (channel = TAILQ_FIRST(&verbs->channels); channel; channel = next) {
		next = TAILQ_NEXT(channel, link);
		if (channel->device->gone && !channel->conns)
			verbs_channel_close(channel);
	}
}
