"""The data of a call as the queues carry them.

dtypes casts data, and results that queues do not carry; shapes fixes and checks shapes;
steps counts those of a call.
Uses checks, ipufeed.device.
"""
